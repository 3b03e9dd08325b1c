// Offsets of elements among the axes of a tensor, on the device.
#pragma once

#include "host_lines.h"
#include "kernel.h"

namespace mezzo::gpu {

/** Returns the offset of element `index`. `count` is the number of elements. Not inlined, because
 *  division is long. */
__device__ __noinline__ inline std::int64_t place_among(const std::int64_t* sizes,
                                                        const std::int64_t* strides, int rank,
                                                        std::int64_t count, std::int64_t index) {
  std::int64_t place = 0;
  if (count <= 0x7FFFFFFF) {  // a 64-bit division costs several times as much
    auto rest = static_cast<std::uint32_t>(index);
    for (int i = rank - 1; i >= 0; --i) {
      const auto size = static_cast<std::uint32_t>(sizes[i]);
      place += static_cast<std::int64_t>(rest % size) * strides[i];
      rest /= size;
    }
    return place;
  }
  for (int i = rank - 1; i >= 0; --i) {
    place += index % sizes[i] * strides[i];
    index /= sizes[i];
  }
  return place;
}

/** Returns the offset of element `index` in row-major order, in elements. */
__device__ inline std::int64_t place_of(const Axes& axes, std::int64_t index) {
  if (axes.rank == 1) return index * axes.strides[0];
  return axes.rank == 0 ? 0 : place_among(axes.sizes, axes.strides, axes.rank, axes.count, index);
}

}  // namespace mezzo::gpu
