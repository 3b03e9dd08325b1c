// Rows of exponent_histogram and change_histograms.
#include <cmath>

#include "../row.h"

using namespace rows;
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

/** The histograms of the change and of the ratio, rounded to f32 as the kernels compute them. */
std::vector<Array> change_histograms_of(const std::vector<Array>& x) {
  Array change = x[0], ratio = x[0];
  for (std::size_t i = 0; i < change.values.size(); ++i) {
    const float before = static_cast<float>(x[0].values[i]);
    const float difference = static_cast<float>(x[1].values[i]) - before;
    change.values[i] = difference;
    ratio.values[i] = difference / before;
  }
  const std::vector<Array> of_change = histogram({change}), of_ratio = histogram({ratio});
  return {of_change[0], of_change[1], of_ratio[0], of_ratio[1]};
}

Tensors listed(const ExponentHistogram& h) { return {h.largest, h.counts}; }
Tensors listed(const ChangeHistograms& h) {
  return {h.change.largest, h.change.counts, h.ratio.largest, h.ratio.counts};
}

const Rows exponent_rows("", [] {
  auto changes =
      row("change_histograms", CALL(listed(change_histograms(x[0], x[1]))))
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor before = d.tensor(), after = d.flag() ? d.tensor() : before.clone();
            const bool fits = is_floating(before.dtype()) && is_floating(after.dtype()) &&
                              before.shape() == after.shape();
            return Trial{call({before, after}),
                         fits ? Expected(std::vector<Sizes>{{}, {280}, {}, {280}}) : refused()};
          });
  for (const double size : {2.0, 1e-6})
    changes.test({.variant = std::to_string(size),
                  .oracle = change_histograms_of,
                  .operands = {{.low = -size, .high = size}, {.low = -size, .high = size}},
                  .shapes = {{{}, {}}, {{0}, {0}}, {{5, 13}, {5, 13}}, {{300, 301}, {300, 301}}},
                  .gradients = false,
                  .half = false});
  auto exponents =
      row("exponent_histogram", CALL(listed(exponent_histogram(x[0]))))
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.tensor();
            return Trial{call({x}), is_floating(x.dtype()) ? Expected(std::vector<Sizes>{{}, {280}})
                                                           : refused()};
          });
  for (const double size : {2.0, 1e-6, 3e4})
    exponents.test({.variant = std::to_string(size),
                    .oracle = histogram,
                    .operands = {{.low = -size, .high = size}},
                    .shapes = {{{}}, {{0}}, {{7}}, {{5, 13}}, {{2, 3, 1000}}, {{300, 301}}},
                    .gradients = false,
                    .half = false});
});

}  // namespace
