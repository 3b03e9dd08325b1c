// Shared parts of the pooling kernels: windows along three dimensions, and iteration over planes in
// the compute type.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "../../core/compute_type.h"
#include "../../core/row_major.h"
#include "../../cpu/convert.h"
#include "../../cpu/workspace.h"
#include "../../device/parallel.h"
#include "pool.h"

namespace mezzo::cpu_kernels {

/** Lanes of the loops over adjacent windows. Rows of scratch are padded to a multiple of this, so
 *  that no loop has a remainder. */
inline constexpr std::int64_t kPoolLanes = 16;

inline std::int64_t whole_lanes(std::int64_t n) {
  return (n + kPoolLanes - 1) / kPoolLanes * kPoolLanes;
}

/** Properties shared by the planes of a pooling: sizes before and after, and the windows along each
 *  dimension. */
struct Windows {
  op::PoolAttrs attrs;
  op::PoolSizes in, out;
  std::array<std::vector<op::PoolSpan>, 3> spans;

  Windows(const op::PoolAttrs& pool, const op::PoolSizes& before, const op::PoolSizes& after)
      : attrs(pool), in(before), out(after) {
    for (std::size_t a = 0; a < 3; ++a)
      for (std::int64_t o = 0; o < out[a]; ++o)
        spans[a].push_back(op::pool_span(attrs, static_cast<int>(a), in[a], o));
  }
};
inline std::int64_t volume(const op::PoolSizes& sizes) { return sizes[0] * sizes[1] * sizes[2]; }

/** The source and result planes of a kernel, and the number of scratch elements it needs. */
template <class T> struct Planes {
  std::int64_t count;
  const T* from;
  std::int64_t from_size;
  T* to;
  std::int64_t to_size;
  std::int64_t scratch = 0;
};

/** Calls body(source plane, result plane, scratch, number) for all planes, in the compute type.
 *  16-bit planes are converted on both sides while they are in the cache. */
template <class T, class F>
void for_each_plane(const Planes<T>& planes, double plane_ns, F&& body) {
  using C = ComputeOf<T>;
  constexpr bool kConverted = !std::is_same_v<T, C>;
  const std::int64_t from_size = planes.from_size, to_size = planes.to_size;
  const auto chunk = [&](std::int64_t begin, std::int64_t end) {
    const Workspace<C> work(planes.scratch + (kConverted ? from_size + to_size : 0));
    for (std::int64_t p = begin; p < end; ++p) {
      const T* const from = planes.from + p * from_size;
      T* const to = planes.to + p * to_size;
      if constexpr (kConverted) {
        C *const wide_from = work.data() + planes.scratch, *const wide_to = wide_from + from_size;
        widen(from, wide_from, from_size);
        body(wide_from, wide_to, work.data(), p);
        narrow(wide_to, to, to_size);
      } else {
        body(from, to, work.data(), p);
      }
    }
  };
  const std::int64_t per_chunk =
      std::max<std::int64_t>(1, kElementwiseChunk / (from_size + to_size));
  parallel_chunks(planes.count, per_chunk, chunk, plane_ns);
}

}  // namespace mezzo::cpu_kernels
