// Attention by cuDNN: which calls use it. tests/gpu/attention.cpp compares its results with those
// of Mezzo's own kernels.
#pragma once

#include "../../tensor/ops/attention/attention.h"
#include "dnn.h"

namespace mezzo::gpu {

/** Computes the op with cuDNN: 16-bit operands with rows that it can load. Returns false if cuDNN
 *  cannot or must not be used, or if an array of scores would exceed dnn::most_score_bytes(); the
 *  results are then still to be computed. Errors: CudaError, OutOfMemory. */
bool attention_by_library(Inputs in, Outputs out, const op::AttentionAttrs& attrs);
/** Computes the gradients with cuDNN, under the same conditions, unless that of a mask is
 *  requested. */
bool attention_backward_by_library(Inputs in, Outputs out,
                                   const op::AttentionBackward::Attrs& attrs);

/** Compute attention with Mezzo's own kernels, which accept all operands, and results of any
 *  strides, except the logarithms. */
void own_attention(Inputs in, Outputs out, const op::AttentionAttrs& attrs);
void own_attention_backward(Inputs in, Outputs out, const op::AttentionBackward::Attrs& attrs);

/** Returns true if cuDNN's results for a problem of this kind are NaN where the operands are. Else
 *  an overflow would be hidden from the loss scaler. Synchronises with the device. Errors:
 * CudaError, OutOfMemory. */
bool attention_keeps_nan(const dnn::Attention& kind, Device device);

}  // namespace mezzo::gpu
