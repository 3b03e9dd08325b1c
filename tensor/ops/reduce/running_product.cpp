#include "running_product.h"

#include <algorithm>
#include <cstdlib>

#include "../create.h"
#include "../elementwise/operators.h"

namespace mezzo {

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
