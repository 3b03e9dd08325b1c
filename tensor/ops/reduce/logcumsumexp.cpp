// Shape rule and gradient of logcumsumexp.
#include "logcumsumexp.h"

#include <cmath>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../elementwise/compare.h"
#include "../elementwise/functions.h"
#include "../elementwise/operators.h"
#include "../elementwise/selection.h"
#include "../wide.h"

namespace mezzo::op {

OutSpecs Logcumsumexp::infer(Inputs in, const Attrs&) {
  return {{in[0].shape(), is_floating(in[0].dtype()) ? in[0].dtype() : DType::f32}};
}

std::span<OpInfo* const> logcumsumexp_ops() { return infos_of(LogcumsumexpOps{}); }

/** Sums of positive and of negative gradients are computed apart, as logarithms: no exponential
 *  overflows. Computes y again, so that the gradient can be differentiated. */
Grads Logcumsumexp::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Logcumsumexp>();
  const Tensor x = wide(saved.inputs[0]), g = wide(gy[0]);
  const Tensor y = apply_with<Logcumsumexp>(attrs, x);
  const auto sum_of_positive = [&](const Tensor& part) {
    const Tensor counts = part > 0;
    const Tensor logs = where(counts, log(where(counts, part, 1)), -INFINITY) - y;
    return exp(x + apply_with<Logcumsumexp>({attrs.dim, !attrs.reversed}, logs));
  };
  return {where(x == -INFINITY, 0, sum_of_positive(g) - sum_of_positive(-g))};
}

}  // namespace mezzo::op

namespace mezzo {

Tensor logcumsumexp(const Tensor& x, std::int64_t dim) {
  return apply_with<op::Logcumsumexp>({wrap_dim(dim, x.dim(), "logcumsumexp")}, x);
}

}  // namespace mezzo
