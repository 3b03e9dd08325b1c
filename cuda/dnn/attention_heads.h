// as_heads(): attention operands as batch entries and heads, for cuDNN.
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

}  // namespace mezzo::gpu
