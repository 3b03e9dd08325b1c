// Shared parts of the gradients of reductions.
#pragma once

#include "reduce.h"

namespace mezzo {

/** Returns a result or its gradient with every reduced dimension of the operand at size 1, so that
 *  it broadcasts against the operand. */
inline Tensor with_kept_dims(const Tensor& y, const Shape& operand, std::uint32_t dims) {
  return y.view(op::reduced_shape(operand, {dims, true}));
}

}  // namespace mezzo
