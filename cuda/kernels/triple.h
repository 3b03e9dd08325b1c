// Triple: the sizes of, or a position in, up to three spatial dimensions.
#pragma once

#include <array>

#include "kernel.h"

namespace mezzo::gpu {

/** Depth, height, width. */
struct Triple {
  std::int64_t at[3];

  MZ_HD std::int64_t count() const { return at[0] * at[1] * at[2]; }
  /** Returns the position of an index in a row-major array of these sizes. */
  __device__ Triple position(std::int64_t index) const {
    if ((index | at[1] | at[2]) >> 31 == 0) {  // a 64-bit division costs several times as much
      const auto i = static_cast<std::uint32_t>(index), width = static_cast<std::uint32_t>(at[2]),
                 height = static_cast<std::uint32_t>(at[1]), y = i / width;
      return {{y / height, y % height, i % width}};
    }
    const std::int64_t y = index / at[2];
    return {{y / at[1], y % at[1], index % at[2]}};
  }
  __device__ std::int64_t index(const Triple& p) const {
    return (p.at[0] * at[1] + p.at[1]) * at[2] + p.at[2];
  }
  __device__ bool contains(const Triple& p) const {
    return p.at[0] >= 0 && p.at[0] < at[0] && p.at[1] >= 0 && p.at[1] < at[1] && p.at[2] >= 0 &&
           p.at[2] < at[2];
  }
};

inline Triple triple(const std::array<std::int64_t, 3>& x) { return {{x[0], x[1], x[2]}}; }

}  // namespace mezzo::gpu
