// Cases of exponent_histogram.
#include <cmath>

#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

/** Counts by std::ilogb, which is independent of the bits that the kernels read. */
std::vector<Array> histogram(const std::vector<Array>& x) {
  Array largest{Shape{}, {0}}, counts{Shape{280}, std::vector<double>(280)};
  for (const double v : x[0].values) {
    const int bin = v == 0 ? 0 : std::isinf(v) ? 278 : std::isnan(v) ? 279 : std::ilogb(v) + 150;
    ++counts.values[static_cast<std::size_t>(bin)];
    if (std::isfinite(v)) largest.values[0] = std::max(largest.values[0], std::abs(v));
  }
  return {largest, counts};
}

const Registrar additions([] {
  for (const double size : {2.0, 1e-6, 3e4})
    add_case({.op = "exponent_histogram",
              .variant = std::to_string(size),
              .call =
                  [](const std::vector<Tensor>& x) {
                    const ExponentHistogram h = exponent_histogram(x[0]);
                    return std::vector<Tensor>{h.largest, h.counts};
                  },
              .oracle = histogram,
              .operands = {{.low = -size, .high = size}},
              .shapes = {{{}}, {{0}}, {{7}}, {{5, 13}}, {{2, 3, 1000}}, {{300, 301}}},
              .gradients = false,
              .half = false});
});

}  // namespace
