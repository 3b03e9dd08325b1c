// The sort of short lines of entries in a block's shared memory, with a bitonic network.
#pragma once

#include "../kernel.h"
#include "sort_lines.h"

namespace mezzo::gpu {

/** Most entries of a short line. */
inline constexpr int kShortLine = 1024;

/** Returns an entry that sorts last. */
template <class Entry> __device__ Entry last_entry();
template <> __device__ inline NarrowEntry last_entry() { return {~std::uint64_t{0}}; }
template <> __device__ inline WideEntry last_entry() {
  return {~std::uint64_t{0}, ~std::uint64_t{0}};
}

/** Sorts runs of `padded` entries, a power of 2, in shared memory: `held` entries in all. All
 *  threads of the block must call it. */
template <class Entry> __device__ void sort_runs(Entry* room, int held, int padded) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  for (int size = 2; size <= padded; size *= 2)
    for (int stride = size / 2; stride > 0; stride /= 2) {
      __syncthreads();
      for (int pair = thread; pair < held / 2; pair += threads) {
        const int low = 2 * pair - (pair & (stride - 1)), high = low + stride;
        const bool upwards = (low & (padded - 1) & size) == 0;
        const Entry a = room[low], b = room[high];
        if ((b < a) == upwards) {
          room[low] = b;
          room[high] = a;
        }
      }
    }
  __syncthreads();
}

}  // namespace mezzo::gpu
