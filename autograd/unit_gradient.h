// The 1 that a backward pass starts from: one per dtype, device and queue of a thread, made once, and known again by the rules that can do without a product by it.
// Sees: tensor.
// Read next: unit_gradient.cpp, engine.cpp (who starts from it), elementwise_rule.cpp (who knows it).
#pragma once

#include "../tensor/tensor.h"

namespace mezzo {

/** A one of that shape, which has one element. Nobody writes to it: it has owners besides its user. */
Tensor unit_gradient(const Shape& shape, DType dtype, Device device);

/** Whether a gradient is one of these. */
bool is_unit_gradient(const Tensor& gradient);

}  // namespace mezzo
