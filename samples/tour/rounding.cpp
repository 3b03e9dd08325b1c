
#include <mezzo.h>

#include <cmath>

#include "chapters.h"

namespace samples::tour {

using namespace mezzo;

namespace {

Tensor in_f16(double value) { return tensor(value, {.dtype = f16}); }

double add_f16(double a, double b) { return (in_f16(a) + in_f16(b)).item<double>(); }

/** Returns the largest power of two that a number of f16, at least 1, loses in an addition. */
double largest_lost(double at) {
  double p = at;
  for (p = std::exp2(std::floor(std::log2(at))); add_f16(at, p) != at;) p /= 2;
  return p;
}

double count_in_f16(int ones) {
  Tensor total = in_f16(0);
  const Tensor one = in_f16(1);
  for (int i = 0; i < ones; ++i) total = total + one;
  return total.item<double>();
}

void tell_spacing(Guide& guide, const RoundingFinding& found) {
  Table table{.header = {"number", "to the next", "lost when added", "lost / number"}, .rows = {}};
  for (const Spacing& s : found.spacings)
    table.rows.push_back(
        {str(s.at), power_text(s.spacing), power_text(s.lost), rounded(s.lost / s.at, 3)});
  guide.show(table);
  guide.show(str("2^-11 = ", rounded(std::ldexp(1, -11), 3),
                 ", 2^-12 = ", rounded(std::ldexp(1, -12), 3)));
}

}  // namespace

RoundingFinding find_rounding() {
  RoundingFinding found;
  found.ones = 4096;
  for (const double b : {1.0, 2.0, 3.0})
    found.additions.push_back({.a = 2048, .b = b, .result = add_f16(2048, b)});
  for (const double at : {1.0, 3.0, 100.0, 2048.0, 40000.0}) {
    const double next = store_f16(at).above;
    found.spacings.push_back({.at = at, .spacing = next - at, .lost = largest_lost(at)});
  }
  found.counted = count_in_f16(found.ones);
  found.summed = sum(ones({found.ones}, {.dtype = f16})).item<double>();
  return found;
}

void tell_rounding(Guide& guide) {
  guide.chapter(2, "Rounding, and the number 2^-11");
  guide.say(
      "Between two neighbouring powers of two, f16 has 1024 numbers at equal distances. From 1 to "
      "2 that distance is 2^-10. From 2048 to 4096, an interval 2048 times as wide, it is 2.");
  guide.ask("What are 2048 + 1, 2048 + 2 and 2048 + 3 in f16?");
  const RoundingFinding found = find_rounding();
  for (const Addition& a : found.additions) guide.show(str(a.a, " + ", a.b, " = ", a.result));
  guide.explain(
      "The exact sum is rounded to a neighbour, and where both are equally near, to the one whose "
      "last bit is 0.");
  guide.ask(
      "How small must a number be, compared with the one it is added to, so that nothing changes?");
  tell_spacing(guide, found);
  guide.explain(
      "What is less than half the distance to the next number is rounded away, and half that "
      "distance is between 2^-12 and 2^-11 of the number; in training we meet it again as the "
      "2^-11 rule.");
  guide.ask(str("We add up ", found.ones,
                " ones in f16, one after another. What is the total? And with sum()?"));
  guide.show(str("one after another: ", found.counted));
  guide.show(str("sum():             ", found.summed));
  guide.explain(
      "The total stops where 1 is half the distance to the next number; sum() and matrix products "
      "add in f32 and round to f16 once, at the end.");
}

}  // namespace samples::tour
