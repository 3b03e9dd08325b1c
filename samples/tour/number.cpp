#include "chapters.h"

#include <cmath>

namespace samples::tour {

using namespace mezzo;

namespace {

/** Returns the value of an f16 with these bits. */
double value_of(std::uint16_t bits) {
  const Tensor x = zeros({}, {.dtype = f16});
  *x.data<Half>() = Half::from_bits(bits);
  return x.item<double>();
}

double relative_error(double value, double wanted) { return std::abs(value - wanted) / wanted; }

}  // namespace

Stored store_f16(double wanted) {
  const Tensor x = tensor(wanted, {.dtype = f64}).to(f16);
  const std::uint16_t bits = x.data<Half>()->bits;
  const double value = x.item<double>();
  // The bits of numbers above 0 count up in the order of the numbers.
  return {.wanted = wanted,
          .bits = bits,
          .value = value,
          .below = value_of(static_cast<std::uint16_t>(bits - 1)),
          .above = value_of(static_cast<std::uint16_t>(bits + 1)),
          .relative_error = relative_error(value, wanted)};
}

std::string bits_text(std::uint16_t bits) {
  std::string text;
  for (int i = 15; i >= 0; --i) {
    text += (bits >> i & 1) != 0 ? '1' : '0';
    if (i == 15 || i == 10) text += ' ';
  }
  return text;
}

NumberFinding find_number() {
  NumberFinding found;
  for (const double wanted : {0.1, 1.0, 3.14159, 1000.3})
    found.numbers.push_back(store_f16(wanted));
  const double wanted = found.numbers[0].wanted;
  const double in_f32 = tensor(wanted, {.dtype = f64}).to(f32).item<double>();
  found.f32_error = relative_error(in_f32, wanted);
  return found;
}

void tell_number(Guide& guide) {
  guide.chapter(1, "A number in 16 bits");
  guide.say(
      "A computer keeps a number in a fixed number of bits. The usual type, f32, has 32. Half of "
      "them make an f16: 1 bit for the sign, 5 for the exponent (between which two powers of two "
      "the number is), and 10 for the fraction (where between them).");
  guide.ask(
      "We store 0.1 in f16 and read it back. Is it still 0.1? If not, is it off by about 1 %, "
      "0.02 % or 0.000001 %?");
  const NumberFinding found = find_number();
  Table table{
      .header = {"number", "sign exponent fraction", "stored", "next below", "next above", "error"},
      .rows = {}};
  for (const Stored& n : found.numbers)
    table.rows.push_back({str(n.wanted), bits_text(n.bits), rounded(n.value, 7),
                          rounded(n.below, 7), rounded(n.above, 7), percent(n.relative_error, 3)});
  guide.show(table);
  const Stored& tenth = found.numbers[0];
  guide.show(str("In f32, 0.1 is off by ", percent(found.f32_error, 7), "."));
  guide.explain(str("f16 has no number between ", rounded(tenth.value, 7), " and ",
                    rounded(tenth.above, 7),
                    ", so 0.1 becomes the nearer of the two: this is called rounding."));
}

}  // namespace samples::tour
