// Attention's operands as cuDNN takes them: heads of entries, whatever the batch.
// Sees: dnn.h, ../tensor/ops/attention.h.
// Read next: attention_heads.cpp, attention_library.cpp (who asks).
#pragma once

#include <optional>

#include "../tensor/ops/attention.h"
#include "dnn.h"

namespace mezzo::gpu {

/** Elements that the library loads at once: rows and operands begin at multiples of 16 bytes. */
inline constexpr std::int64_t kPiece = 8;
/** The longest rows that it is asked for. */
inline constexpr std::int64_t kWidestHeads = 128;

/** The operands of a call of 16 bits with two queries or more, where one dimension of the batch is the first of the heads and each operand can be said
 *  with a step from entry to entry, one from head to head and one from row to row. g is undefined in the forward direction. */
std::optional<dnn::Attention> as_heads(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& g,
                                       const op::AttentionAttrs& attrs);

}  // namespace mezzo::gpu
