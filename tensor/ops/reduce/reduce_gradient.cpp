#include "reduce_gradient.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "../../core/dispatch.h"
#include "../create.h"
#include "../elementwise/operators.h"
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

Tensor shifted(const Tensor& x, int dim, std::int64_t steps, double fill) {
  const std::int64_t n = x.shape()[dim], distance = std::min(n, std::abs(steps)),
                     kept = n - distance;
  const Tensor y = full(x.shape(), fill, {.dtype = x.dtype(), .device = x.device()});
  if (kept > 0)
    y.narrow(dim, steps > 0 ? distance : 0, kept)
        .copy_(x.narrow(dim, steps > 0 ? 0 : distance, kept));
  return y;
}

Tensor product_before(const Tensor& x, int dim, bool from_end) {
  // Each round doubles the number of neighbours in each product.
  const std::int64_t direction = from_end ? -1 : 1;
  Tensor y = shifted(x, dim, direction, 1);
  for (std::int64_t step = 1; step < x.shape()[dim]; step *= 2)
    y = y * shifted(y, dim, direction * step, 1);
  return y;
}

Tensor backward_recurrence(const Tensor& g, const Tensor& x, int dim) {
  // t[k] = sum[k] + factor[k] * t[k + step], with step doubling.
  Tensor sum = g, factor = shifted(x, dim, -1, 0);
  for (std::int64_t step = 1; step < x.shape()[dim]; step *= 2) {
    sum = sum + factor * shifted(sum, dim, -step, 0);
    factor = factor * shifted(factor, dim, -step, 0);
  }
  return sum;
}

}  // namespace mezzo
