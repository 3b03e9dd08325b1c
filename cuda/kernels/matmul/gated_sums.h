// The gradients of an activation and of the bias before it, in one pass.
#pragma once

#include "../../../tensor/ops/matmul/linear_chain.h"

namespace mezzo::gpu {

/** Multiplies g, [.., columns] and contiguous, by the derivative of the activation, relu or gelu,
 *  as op::differentiate_in_place, and adds up its columns, as op::sum_columns: with the bits of
 *  both. Returns false, having done nothing, for operands that the kernel does not take: it takes
 *  f16, bf16 and f32 in packs of 16 bytes. */
bool gate_and_sum_columns(Tensor& g, const Tensor& y_or_sums, MlpActivation activation,
                          Tensor& sums);

}  // namespace mezzo::gpu
