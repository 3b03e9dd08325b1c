// What the rules of reductions share: undoing the loss of dimensions.
// Sees: tensor.
// Read next: reduce.cpp.
#pragma once

#include "../../tensor/ops/reduce.h"

namespace mezzo {

/** A result, or its gradient, with every reduced dimension of the operand back as size 1, so that it broadcasts against the operand. */
inline Tensor with_kept_dims(const Tensor& y, const Shape& operand, std::uint32_t dims) {
  return y.view(op::reduced_shape(operand, {dims, true}));
}

}  // namespace mezzo
