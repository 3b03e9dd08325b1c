// MemoryFormat: the memory orders of a tensor's elements, named as in PyTorch.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "shape.h"

namespace mezzo {

/** The order of a tensor's elements in memory. PyTorch has a second channels_last for volumes; here
 *  the rank selects between images and volumes. */
enum class MemoryFormat : std::uint8_t {
  contiguous,     // row-major
  channels_last,  // channels innermost: [N,C,H,W] as N, H, W, C and [N,C,D,H,W] as N, D, H, W, C
};

/** Returns the name: "contiguous" or "channels_last". */
MZ_API std::string_view name(MemoryFormat format);

/** Returns true if tensors of that many dimensions can be channels-last: 4 or 5. */
constexpr bool may_be_channels_last(int rank) { return rank == 4 || rank == 5; }

/** Returns the dimension at position `place` of the format's memory order; place 0 is the
 *  outermost. */
constexpr int dim_at(MemoryFormat format, int rank, int place) {
  if (format == MemoryFormat::contiguous || place == 0) return place;
  return place == rank - 1 ? 1 : place + 1;
}

/** Returns `wanted` for a batch of images with `spatial` dimensions after batch and channels.
 *  Returns row-major for images without a batch, whose dimensions have other meanings than those of
 *  channels-last tensors. */
constexpr std::optional<MemoryFormat> format_of_images(
    int rank, int spatial, std::optional<MemoryFormat> wanted = std::nullopt) {
  return rank == spatial + 2 ? wanted : MemoryFormat::contiguous;
}

/** Returns strides without gaps, in elements, equal to PyTorch's for sizes of 0 and 1 too. The rank
 *  must fit the format. */
MZ_API Strides strides_in(MemoryFormat format, const Shape& shape);

/** Returns true if the elements are stored in the order of the format without gaps. The strides of
 *  dimensions of size 1 are ignored. */
MZ_API bool are_dense(MemoryFormat format, const Shape& shape, const Strides& strides);

/** Returns the format that PyTorch deduces from strides, with or without gaps: row-major if the
 *  strides fit both formats or neither. */
MZ_API MemoryFormat suggested_format(const Shape& shape, const Strides& strides);

}  // namespace mezzo
