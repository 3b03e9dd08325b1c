// Scans: running combinations along lines. The threads of a line process it tile by tile. A long
// line is cut into chunks, one per block, in three launches: the total of every chunk, the prefix
// before every chunk, the results.
//
// A scan S, passed to the kernel by value, defines:
//   S::State                                    the combination of adjacent elements; plain data
//   State identity()                            the state of no elements
//   State load(place, line, i)                  element i of a line, at offset `place`
//   State combine(State, State)                 the first precedes the second; any grouping
//   void store(place, line, i, before, upto)    stores the result of element i from the
//                                               combinations before it and up to it; may
//                                               overwrite what was loaded for i
#pragma once

#include <algorithm>

#include "../../runtime/device.h"
#include "../lines.h"

namespace mezzo::gpu {

/** Adjacent elements that a thread processes at a time. */
inline constexpr int kScanItems = 4;

/** Plan of a scan. It depends on the shape alone, and so does every bit of the results. */
struct ScanPlan {
  Lines lines;
  bool reversed = false;  // from the last element to the first
  std::int64_t chunks = 1, chunk_length = 0;

  std::int64_t blocks() const { return lines.blocks() * chunks; }
};

inline ScanPlan scan_plan(Lines lines, bool reversed) {
  lines.spread = spread_over(lines.count, blocks_for(lines.length, kScanItems), lines.inner > 1);
  ScanPlan plan{lines, reversed, 1, lines.length};
  constexpr std::int64_t kBlocks = 512,
                         kFewest = 4;  // blocks that fill a device; smallest number of tiles per
                                       // block
  const std::int64_t tile = lines.spread.parts * kScanItems;
  const std::int64_t chunks = std::min(kBlocks / std::max<std::int64_t>(1, lines.blocks()),
                                       lines.length / (kFewest * tile));
  if (chunks < 2) return plan;
  plan.chunk_length = blocks_for(blocks_for(lines.length, chunks), tile) * tile;
  plan.chunks = blocks_for(lines.length, plan.chunk_length);
  return plan;
}

/** Returns the combination of the threads before the calling one in its line; sets `all` to that of
 *  all threads. All threads of the block must call it. */
template <class S>
__device__ inline typename S::State scanned(const S& s, const Spread& spread, Role at,
                                            typename S::State* room, typename S::State mine,
                                            typename S::State& all) {
  using State = typename S::State;
  State* line = room + at.slot;
  __syncthreads();  // earlier results in `room` may still be read
  line[at.part * spread.slots] = mine;
  for (int step = 1; step < spread.parts; step *= 2) {
    __syncthreads();
    if (at.part >= step) mine = s.combine(line[(at.part - step) * spread.slots], mine);
    __syncthreads();
    line[at.part * spread.slots] = mine;
  }
  __syncthreads();
  all = line[(spread.parts - 1) * spread.slots];
  return at.part == 0 ? s.identity() : line[(at.part - 1) * spread.slots];
}

/** `sums`: stores the total of each chunk of each line at starts[line * chunks + chunk]. Otherwise
 *  `starts`, if not null, holds the prefix before each chunk. */
template <class S, bool sums>
__global__ void __launch_bounds__(kSpreadThreads)
    scan_kernel(const ScanPlan __grid_constant__ plan, const S __grid_constant__ s,
                typename S::State* starts) {
  using State = typename S::State;
  MZ_SHARED(State, room, kSpreadThreads);
  const Lines& lines = plan.lines;
  const Role at = role_in(lines.spread);
  const std::int64_t chunk = static_cast<std::int64_t>(blockIdx.x) % plan.chunks;
  const std::int64_t line =
      static_cast<std::int64_t>(blockIdx.x) / plan.chunks * lines.spread.slots + at.slot;
  const bool has_line = line < lines.count;
  const std::int64_t base = line / lines.inner * lines.length * lines.inner + line % lines.inner;
  const std::int64_t begin = chunk * plan.chunk_length;
  const std::int64_t left = lines.length - begin;
  const std::int64_t end = begin + (left < plan.chunk_length ? left : plan.chunk_length);
  State carried = s.identity();
  if (!sums && starts && has_line) carried = starts[line * plan.chunks + chunk];
  for (std::int64_t tile = begin; tile < end; tile += lines.spread.parts * kScanItems) {
    const std::int64_t first = tile + at.part * kScanItems;
    State items[kScanItems], mine = s.identity();
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) {
      const std::int64_t i = plan.reversed ? lines.length - 1 - first - k : first + k;
      const bool exists = has_line && first + k < end;
      items[k] = exists ? s.load(base + i * lines.inner, line, i) : s.identity();
      mine = s.combine(mine, items[k]);
    }
    State all;
    [[maybe_unused]] State upto = s.combine(carried, scanned(s, lines.spread, at, room, mine, all));
    carried = s.combine(carried, all);
    if constexpr (!sums) {
#pragma unroll
      for (int k = 0; k < kScanItems; ++k) {
        if (!has_line || first + k >= end) break;
        const std::int64_t i = plan.reversed ? lines.length - 1 - first - k : first + k;
        const State before = upto;
        upto = s.combine(before, items[k]);
        s.store(base + i * lines.inner, line, i, before, upto);
      }
    }
  }
  if (sums && has_line && at.part == 0) starts[line * plan.chunks + chunk] = carried;
}

/** Converts totals of chunks into the prefixes before them. */
template <class S> struct ChunkStarts {
  using State = typename S::State;
  S s;
  State* states;

  __device__ State identity() const { return s.identity(); }
  __device__ State load(std::int64_t place, std::int64_t, std::int64_t) const {
    return states[place];
  }
  __device__ State combine(State a, State b) const { return s.combine(a, b); }
  __device__ void store(std::int64_t place, std::int64_t, std::int64_t, State before, State) const {
    states[place] = before;
  }
};

/** Scans the lines, from their ends if `reversed`. */
template <class S> void scan(const Lines& lines, bool reversed, const S& s, Device device) {
  using State = typename S::State;
  if (lines.count == 0 || lines.length == 0) return;
  const ScanPlan plan = scan_plan(lines, reversed);
  const Grid grid{.blocks = plan.blocks(), .threads = plan.lines.spread.threads()};
  const runtime::Stream stream = current_stream(device);
  if (plan.chunks == 1)
    return launch(&scan_kernel<S, false>, grid, stream, plan, s, static_cast<State*>(nullptr));
  const Tensor room =
      workspace(lines.count * plan.chunks * static_cast<std::int64_t>(sizeof(State)), device);
  State* states = static_cast<State*>(room.raw_data());
  launch(&scan_kernel<S, true>, grid, stream, plan, s, states);
  ScanPlan of_chunks{{.count = lines.count, .length = plan.chunks}, false, 1, plan.chunks};
  of_chunks.lines.spread = spread_over(lines.count, blocks_for(plan.chunks, kScanItems), false);
  launch(&scan_kernel<ChunkStarts<S>, false>,
         {.blocks = of_chunks.blocks(), .threads = of_chunks.lines.spread.threads()}, stream,
         of_chunks, ChunkStarts<S>{s, states}, static_cast<State*>(nullptr));
  launch(&scan_kernel<S, false>, grid, stream, plan, s, states);
}

}  // namespace mezzo::gpu
