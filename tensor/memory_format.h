// MemoryFormat: the orders in which the elements of a tensor may lie in memory, as PyTorch names them.
// Sees: shape.h.
// Read next: tensor.h (Tensor::contiguous, Tensor::to), op.h (which results keep a format).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "shape.h"

namespace mezzo {

/** PyTorch has a second channels_last for volumes; the rank tells them apart, so here it is one. */
enum class MemoryFormat : std::uint8_t {
  contiguous,     // row-major
  channels_last,  // channels side by side: [N,C,H,W] as N, H, W, C and [N,C,D,H,W] as N, D, H, W, C
};

/** "channels_last". */
MZ_API std::string_view name(MemoryFormat format);

/** Whether tensors of that many dimensions can be channels-last. */
constexpr bool may_be_channels_last(int rank) { return rank == 4 || rank == 5; }

/** The dimension at a place in the order in which memory of the format holds them, the outermost at place 0. */
constexpr int dim_at(MemoryFormat format, int rank, int place) {
  if (format == MemoryFormat::contiguous || place == 0) return place;
  return place == rank - 1 ? 1 : place + 1;
}

/** `wanted` for images of `spatial` dimensions behind batch and channels; without a batch, where dimensions mean other things than in channels-last
 *  tensors, row-major. */
constexpr std::optional<MemoryFormat> format_of_images(int rank, int spatial,
                                                       std::optional<MemoryFormat> wanted = std::nullopt) {
  return rank == spatial + 2 ? wanted : MemoryFormat::contiguous;
}

/** Strides without gaps, in elements: PyTorch's, for sizes of 0 and 1 too. The rank fits the format. */
MZ_API Strides strides_in(MemoryFormat format, const Shape& shape);

/** Whether elements lie in the order of the format without gaps; the strides of dimensions of size 1 do not count. */
MZ_API bool are_dense(MemoryFormat format, const Shape& shape, const Strides& strides);

/** What PyTorch takes strides for, gaps or not: row-major where they fit both formats, or neither. */
MZ_API MemoryFormat suggested_format(const Shape& shape, const Strides& strides);

}  // namespace mezzo
