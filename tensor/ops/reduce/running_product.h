// Cumulative products and their adjoint in public ops, by doubling: log2(n) multiplications of
// shifted tensors, without division, differentiable any number of times.
#pragma once

#include "../../core/tensor.h"

namespace mezzo {

/** Returns x moved by `steps` positions along dim (towards the start if negative), with `fill` at
 *  the free positions. */
Tensor shifted(const Tensor& x, int dim, std::int64_t steps, double fill);

/** Returns y with y[k] = the product of all x before k, or with `from_end` of all x after k. */
Tensor product_before(const Tensor& x, int dim, bool from_end = false);

/** Returns t with t[k] = g[k] + x[k+1] * t[k+1]. */
Tensor backward_recurrence(const Tensor& g, const Tensor& x, int dim);

}  // namespace mezzo
