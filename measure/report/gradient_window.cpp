#include "gradient_window.h"

#include <algorithm>
#include <cmath>

namespace mezzo::amp::report {

namespace {

// Of f16: values below 2^-14 are multiples of 2^-24.
constexpr int kSmallestUnit = -24, kSmallestNormal = -14;
/** Scales further below the greatest one are not tried. */
constexpr int kMostBinades = 60;

/** Returns the sum of the magnitudes, each taken as 1.5 * 2^exponent. */
double sum_of_magnitudes(const Histogram& h) {
  double sum = 0;
  for (std::size_t i = 0; i < h.counts.size(); ++i)
    sum += static_cast<double>(h.counts[i]) * std::ldexp(1.5, h.lowest + static_cast<int>(i));
  return sum;
}

}  // namespace

std::int64_t count_finite_nonzero(const Histogram& h) {
  std::int64_t count = 0;
  for (const std::int64_t n : h.counts) count += n;
  return count;
}

std::optional<int> greatest_exponent(const Histogram& h) {
  if (h.counts.empty()) return std::nullopt;
  return h.lowest + static_cast<int>(h.counts.size()) - 1;
}

int exponent_of(double scale) { return scale > 0 && std::isfinite(scale) ? std::ilogb(scale) : 0; }

double subnormal_error(const Histogram& h, int shift) {
  const double sum = sum_of_magnitudes(h);
  if (sum == 0) return 0;
  const double unit = std::ldexp(1.0, kSmallestUnit - shift);
  double error = 0;
  for (std::size_t i = 0; i < h.counts.size(); ++i) {
    const int exponent = h.lowest + static_cast<int>(i);
    if (exponent + shift >= kSmallestNormal) break;
    error += static_cast<double>(h.counts[i]) * std::min(unit / 4, std::ldexp(1.5, exponent));
  }
  return error / sum;
}

void ScaleWindow::add(const std::string& name, const Histogram& h, int held) {
  const bool overflowed = h.infinities + h.nans > 0;
  const std::optional<int> top =
      overflowed ? std::optional<int>(kF16FirstInfinite) : greatest_exponent(h);
  if (!top) return;
  const int greatest = kF16FirstInfinite - 1 - (*top - held);
  if (greatest < most) most = greatest, most_name = name;
  int smallest = greatest - kMostBinades;
  while (smallest < greatest && subnormal_error(h, smallest - held) > kMostUnderflow) ++smallest;
  if (smallest > least) least = smallest, least_name = name;
}

}  // namespace mezzo::amp::report
