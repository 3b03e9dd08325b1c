// The gradient of the p-norm, for vector_norm and for ops that contain a norm.
#pragma once

#include "../../core/tensor.h"
#include "../elementwise/operators.h"
#include "statistics.h"

namespace mezzo {

/** Returns `y` where it is not zero, else 1: a divisor for quotients that are then replaced by
 *  `where`. */
inline Tensor nonzero_or_one(const Tensor& y) { return where(y == 0, 1, y); }

/** Returns x (g / y), 0 where y is 0. x and y are scaled first where g / y might leave the range.
 */
Tensor times_quotient(const Tensor& x, const Tensor& g, const Tensor& y);

/** Returns the gradient of y, the norm of x over attrs.dims, for the incoming g. y and g keep the
 *  reduced dimensions with size 1. All have the dtype of the arithmetic. */
Tensor norm_gradient(const Tensor& x, const Tensor& y, const Tensor& g, const op::NormAttrs& attrs);

/** Returns x moved by `steps` positions along dim (towards the start if negative), with `fill` at
 *  the free positions. */
Tensor shifted(const Tensor& x, int dim, std::int64_t steps, double fill);

/** Returns y with y[k] = the product of all x before k, or with `from_end` of all x after k. */
Tensor product_before(const Tensor& x, int dim, bool from_end = false);

/** Returns t with t[k] = g[k] + x[k+1] * t[k+1]. */
Tensor backward_recurrence(const Tensor& g, const Tensor& x, int dim);

}  // namespace mezzo
