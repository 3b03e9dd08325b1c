#include "norm_gradient.h"

#include <cmath>

#include "../../core/dispatch.h"
#include "../create.h"
#include "../norm/line_scale.h"

namespace mezzo {

namespace {

/** Returns the gradient of the largest or smallest |x|: g shared equally among the elements that
 *  attain it, or among the nans if it is nan. */
Tensor shared_among_ties(const Tensor& x, const Tensor& y, const Tensor& g, std::uint32_t dims) {
  const Tensor size = abs(x.detach()), extreme = y.detach();
  const Tensor chosen = where(extreme == extreme, size == extreme, size != size);
  return where(chosen, sign(x.detach()) * (g / apply_with<op::Sum>({dims, true}, chosen)), 0);
}

}  // namespace

Tensor times_quotient(const Tensor& x, const Tensor& g, const Tensor& y) {
  const Tensor scale = scale_of_sizes(y);
  return where(y == 0, 0, scaled(x, scale) * (g / nonzero_or_one(scaled(y, scale))));
}

Tensor norm_gradient(const Tensor& x, const Tensor& y, const Tensor& g,
                     const op::NormAttrs& attrs) {
  const double p = attrs.p;
  if (p == 0) return zeros_like(x);
  if (p == 1) return sign(x.detach()) * g;
  if (std::isinf(p)) return shared_among_ties(x, y, g, attrs.dims);
  if (p == 2) return times_quotient(x, g, y);
  // Divides before taking the power, because powers of small norms underflow.
  // At x = 0 the ratio is 1, in range, and the sign makes the gradient 0.
  const Tensor divisor = nonzero_or_one(y);
  const Tensor ratio = abs(where(x == 0, divisor, x)) / divisor;
  const Tensor gradient = sign(x.detach()) * pow(ratio, p - 1) * g;
  return where(p < 1 ? logical_or(x == 0, y == 0) : y == 0, 0, gradient);
}

}  // namespace mezzo
