// The gradient 1 that a backward pass starts from: one shared tensor per dtype, device and queue of
// a thread. Backward functions recognise it and skip the multiplication by it.
#pragma once

#include "../core/tensor.h"

namespace mezzo {

/** Returns a shared read-only 1 of a shape that has one element. */
Tensor unit_gradient(const Shape& shape, DType dtype, Device device);

/** Returns whether a gradient is such a shared 1. */
bool is_unit_gradient(const Tensor& gradient);

}  // namespace mezzo
