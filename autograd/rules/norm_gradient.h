// The gradient of the p-norm: of vector_norm, and of the ops that hold one.
// Sees: tensor/ops/statistics.h, public ops.
// Read next: statistics.cpp.
#pragma once

#include "../../tensor/ops/statistics.h"
#include "../ops/operators.h"

namespace mezzo {

/** `y` where it is not zero, else 1: a divisor for quotients that `where` then replaces. */
inline Tensor nonzero_or_one(const Tensor& y) { return where(y == 0, 1, y); }

/** Gradient of y = norm of x over attrs.dims for the incoming g; y and g keep the dimensions, all in the type of the arithmetic. */
Tensor norm_gradient(const Tensor& x, const Tensor& y, const Tensor& g, const op::NormAttrs& attrs);

}  // namespace mezzo
