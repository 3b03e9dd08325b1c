// Operands of functions that have steps: a rounding decides which side of a step an element is on.
// Sees: tensor.
// Read next: compare.cpp, arithmetic.cpp.
#pragma once

#include "../../tensor/tensor.h"

namespace mezzo {

/** x rounded to the dtype it promotes to with `other`, where that is f16 or bf16; else x. As in PyTorch
 *  numbers, 0-dim tensors and integers yield to a 16-bit tensor: full({1}, 0.1, f16) == 0.1 holds. */
Tensor in_common_dtype(const Tensor& x, const Tensor& other);

/** The number as x's dtype rounds it where that is f16 or bf16. */
double in_dtype_of(const Tensor& x, double number);

}  // namespace mezzo
