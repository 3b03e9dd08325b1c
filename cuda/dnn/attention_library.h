// Attention by cuDNN: which calls use it. tests/gpu/attention.cpp compares its results with those
// of Mezzo's own kernels.
#pragma once

#include <optional>

#include "../../tensor/ops/attention/attention.h"
#include "dnn.h"

namespace mezzo::gpu {

/** Elements that the library loads at once: rows and operands begin at multiples of 16 bytes. */
inline constexpr std::int64_t kPiece = 8;
/** Longest rows that cuDNN is used for. */
inline constexpr std::int64_t kWidestHeads = 128;

/** Operands and results of attention, [.., rows, columns]. Forward only q, k, v, y and possibly a
 *  mask are defined. */
struct AttentionTensors {
  Tensor q, k, v, y;
  Tensor mask = {};
  Tensor g = {}, dq = {}, dk = {}, dv = {};
};

/** Describes 16-bit tensors, with a bias for the mask, where some dimension of the batch can be the
 *  first of the heads and each tensor has uniform strides between entries, heads and rows. Returns
 *  nothing for others. */
std::optional<dnn::Attention> as_heads(const AttentionTensors& of, const op::AttentionAttrs& attrs);

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
