// as_heads(): attention operands as batch entries and heads, for cuDNN.
#pragma once

#include <optional>

#include "../../tensor/ops/attention.h"
#include "dnn.h"

namespace mezzo::gpu {

/** Elements that the library loads at once: rows and operands begin at multiples of 16 bytes. */
inline constexpr std::int64_t kPiece = 8;
/** Longest rows that cuDNN is used for. */
inline constexpr std::int64_t kWidestHeads = 128;

/** Describes 16-bit operands with two or more queries, where some dimension of the batch can be the
 *  first of the heads and each operand has uniform strides between entries, heads and rows. Returns
 *  nothing for others. g is undefined in the forward direction. */
std::optional<dnn::Attention> as_heads(const Tensor& q, const Tensor& k, const Tensor& v,
                                       const Tensor& g, const op::AttentionAttrs& attrs);

}  // namespace mezzo::gpu
