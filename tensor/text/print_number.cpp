#include "print_number.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "../core/half.h"
#include "text.h"

namespace mezzo::detail {

namespace {

/** A decimal number: abs(x) = d.ddd * 10^exponent. */
struct Decimal {
  std::string digits;
  int exponent = 0;
};

/** Parses "d.ddde+xx". */
Decimal parse(std::string_view text) {
  const std::size_t e = text.find('e');
  Decimal decimal;
  for (const char c : text.substr(0, e))
    if (c != '.') decimal.digits += c;
  decimal.exponent = std::atoi(std::string(text.substr(e + 1)).c_str());
  return decimal;
}

template <class T> Decimal shortest_standard(T x) {
  char buffer[64];
  const auto end =
      std::to_chars(buffer, buffer + sizeof buffer, x, std::chars_format::scientific).ptr;
  return parse({buffer, static_cast<std::size_t>(end - buffer)});
}

/** Returns the shortest decimal that reads back as the same value, by trial; for the 16-bit
 *  types. */
template <class T> Decimal shortest_by_trial(float x) {
  char buffer[64];
  for (int digits = 0;; ++digits) {
    std::snprintf(buffer, sizeof buffer, "%.*e", digits, static_cast<double>(x));
    if (static_cast<float>(T(std::strtof(buffer, nullptr))) == x) return parse(buffer);
  }
}

Decimal shortest(double x, DType dtype) {
  const double size = std::fabs(x);
  switch (dtype) {
    case DType::f16: return shortest_by_trial<Half>(static_cast<float>(size));
    case DType::bf16: return shortest_by_trial<BFloat16>(static_cast<float>(size));
    case DType::f32: return shortest_standard(static_cast<float>(size));
    case DType::f64:
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;
  }
  return shortest_standard(size);
}

std::string without_trailing_zeros(std::string text) {
  text.erase(text.find_last_not_of('0') + 1);
  return text;
}

std::string formatted(const char* format, int precision, double x) {
  char buffer[512];
  const int n = std::snprintf(buffer, sizeof buffer, format, precision, x);
  return {buffer, static_cast<std::size_t>(n)};
}

const char* sign_of(double x) { return std::signbit(x) ? "-" : ""; }

}  // namespace

std::string positional(double x, DType dtype, int precision) {
  Decimal d = shortest(x, dtype);
  const int count = static_cast<int>(d.digits.size());
  if (count - 1 - d.exponent > precision)
    return without_trailing_zeros(formatted("%#.*f", precision, x));
  const std::size_t before = static_cast<std::size_t>(d.exponent < 0 ? 1 : d.exponent + 1);
  if (d.exponent < 0) d.digits.insert(0, static_cast<std::size_t>(-d.exponent), '0');
  if (d.digits.size() < before)
    d.digits = formatted("%.*f", 0, std::fabs(x));  // integers with all digits
  return without_trailing_zeros(sign_of(x) + d.digits.substr(0, before) + "." +
                                d.digits.substr(before));
}

std::string scientific(double x, DType dtype, int precision) {
  Decimal d = shortest(x, dtype);
  if (static_cast<int>(d.digits.size()) - 1 > precision)
    d = parse(formatted("%#.*e", precision, std::fabs(x)));
  const std::string digits =
      without_trailing_zeros(d.digits.substr(0, 1) + "." + d.digits.substr(1));
  const std::string exponent = str(std::abs(d.exponent));
  return str(sign_of(x), digits, d.exponent < 0 ? "e-" : "e+", exponent.size() < 2 ? "0" : "",
             exponent);
}

std::string standing_alone(double x, DType dtype) {
  if (std::isnan(x)) return "nan";
  if (std::isinf(x)) return x < 0 ? "-inf" : "inf";
  constexpr int kAll = 400;
  const double size = std::fabs(x);
  if (size == 0 || (size >= 1e-4 && size < 1e16)) {
    const std::string text = positional(x, dtype, kAll);
    return text.back() == '.' ? text + "0" : text;
  }
  std::string text = scientific(x, dtype, kAll);
  const std::size_t point = text.find(".e");
  if (point != std::string::npos) text.erase(point, 1);
  return text;
}

}  // namespace mezzo::detail
