// Rounding the operands of functions with steps (comparisons, fmod, ...) and of selections (where,
// maximum, ...) to a common dtype. An operand's rounding decides on which side of a step an element
// is; a selected number is rounded once.
#pragma once

#include "../../core/elementwise.h"
#include "../../core/elementwise_info.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Returns x rounded to the dtype that x and `other` promote to where that is f16 or bf16, else x.
 *  As in PyTorch, numbers, 0-dim tensors and integers take the dtype of a 16-bit tensor: full({1},
 *  0.1, f16) == 0.1 holds. */
Tensor in_common_dtype(const Tensor& x, const Tensor& other);

/** Returns x, a number or a 0-dim tensor that an op may select as a result beside `other`, rounded
 * to the dtype that they promote to where that is f16 or bf16, else x. The op would round it to f32
 *  first. Unlike PyTorch, which rounds twice. */
Tensor rounded_once(const Tensor& x, const Tensor& other);

/** Returns the number rounded to x's dtype where that is f16 or bf16, else the number. */
double in_dtype_of(const Tensor& x, double number);

}  // namespace mezzo

/** Defines function(x) and its in-place form. The lists of tensor/elementwise/ use it. */
#define MZ_DEFINE_FUNCTION(function, Op)                        \
  Tensor function(const Tensor& x) { return apply<op::Op>(x); } \
  const Tensor& function##_(const Tensor& self) { return apply_in_place<op::Op>({}, self); }
