#include "line_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../core/dispatch.h"
#include "../../core/elementwise_info.h"
#include "../elementwise/operators.h"
#include "../elementwise/power.h"
#include "../elementwise/selection.h"
#include "../reduce/statistics.h"

namespace mezzo {

namespace {

bool are_ones(const Tensor& scale) {
  if (scale.device() != cpu) return false;
  const auto all_ones = [&]<class C>(const C* factors) {
    return std::all_of(factors, factors + scale.numel(), [](C factor) { return factor == C(1); });
  };
  return scale.dtype() == DType::f64 ? all_ones(scale.data<double>())
                                     : all_ones(scale.data<float>());
}

}  // namespace

Tensor scale_of_sizes(const Tensor& sizes) {
  const NoGrad no_grad;
  return apply<op::ScaleOf>(sizes.detach());
}

Tensor line_scale(const Tensor& x, std::uint32_t dims) {
  const NoGrad no_grad;
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (x.numel() == 0) return scalar_operand(1.0).to(x.dtype()).to(x.device());
  return scale_of_sizes(
      apply_with<op::VectorNorm>({.p = kInfinity, .dims = dims, .keepdim = true}, x.detach()));
}

Tensor at_most_for(const Tensor& scale, double offset) {
  const NoGrad no_grad;
  if (!(offset > 0)) return scale;
  return clamp(scale, {.max = std::exp2(std::floor(-0.5 * std::log2(offset)))});
}

Tensor scaled(const Tensor& x, const Tensor& scale) { return are_ones(scale) ? x : x * scale; }

Tensor unscaled(const Tensor& x, const Tensor& scale) { return are_ones(scale) ? x : x / scale; }

}  // namespace mezzo
