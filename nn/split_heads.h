// split_heads: queries, keys and values of attention heads from one projection. Private to nn/.
#pragma once

#include <cstdint>
#include <vector>

#include "../tensor/core/tensor.h"

namespace mezzo::nn::detail {

/** Returns a view of [T, N, heads, E], or [N, T, heads, E] with batch_first, as [N, heads, T, E].
 */
Tensor with_heads_first(const Tensor& x, bool batch_first);

/** Divides a projection [T, N, 3 E], or [N, T, 3 E] with batch_first, into queries, keys and values
 *  of the heads, three views [N, heads, T, E / heads]. Their gradients are written once, while
 *  those of three separate views would be added up. */
std::vector<Tensor> split_heads(const Tensor& projected, std::int64_t heads, bool batch_first);

}  // namespace mezzo::nn::detail
