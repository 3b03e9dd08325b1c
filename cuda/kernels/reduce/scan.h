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
// and, if it moves the adjacent elements of a thread at once where lines are contiguous:
//   bool aligned()                              on the host: whether its arrays allow that
//   void load_items(place, i, State* items)     loads kScanItems elements from i on
//   void store_items(place, const State* upto)  stores their results
#pragma once

#include <algorithm>

#include "../../runtime/device.h"
#include "../typed.h"

namespace mezzo::gpu {

/** Adjacent elements that a thread processes at a time. */
inline constexpr int kScanItems = 4;

template <class S>
concept MovesItems = requires(const S& s, typename S::State* items) {
  s.load_items(std::int64_t(), std::int64_t(), items);
};

/** Returns true if the array can be moved by kScanItems elements at once. */
inline bool has_aligned_items(const Array& x) {
  return reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

/** Loads kScanItems elements of an aligned array from a multiple of kScanItems on. C is the type
 *  in which the array's dtype computes. */
template <class C>
__device__ inline void load_adjacent(const Array& x, std::int64_t place, C* items) {
  if constexpr (std::is_same_v<C, float>) {
    if (x.dtype == DType::f32)
      load_values<kScanItems>(static_cast<const float*>(x.data) + place, items);
    else if (x.dtype == DType::f16)
      load_part<kScanItems>(static_cast<const Half*>(x.data) + place, items);
    else
      load_part<kScanItems>(static_cast<const BFloat16*>(x.data) + place, items);
  } else {
    using Two = Pack<C, 2>;
    const bool is_whole = x.dtype == DType::f64 || x.dtype == DType::i64;
#pragma unroll
    for (int k = 0; k < kScanItems; k += 2) {
      Two two;
      if (is_whole)
        two = *reinterpret_cast<const Two*>(static_cast<const C*>(x.data) + place + k);
      else
        two = {{x.load<C>(place + k), x.load<C>(place + k + 1)}};
      items[k] = two.item[0];
      items[k + 1] = two.item[1];
    }
  }
}

/** Stores kScanItems elements; otherwise as load_adjacent(). */
template <class C>
__device__ inline void store_adjacent(const Array& y, std::int64_t place, const C* items) {
  if constexpr (std::is_same_v<C, float>) {
    if (y.dtype == DType::f32)
      store_values<kScanItems>(static_cast<float*>(y.data) + place, items);
    else if (y.dtype == DType::f16)
      store_values<kScanItems>(static_cast<Half*>(y.data) + place, items);
    else
      store_values<kScanItems>(static_cast<BFloat16*>(y.data) + place, items);
  } else {
    using Two = Pack<C, 2>;
    const bool is_whole = y.dtype == DType::f64 || y.dtype == DType::i64;
#pragma unroll
    for (int k = 0; k < kScanItems; k += 2) {
      if (is_whole) {
        *reinterpret_cast<Two*>(static_cast<C*>(y.data) + place + k) = {{items[k], items[k + 1]}};
      } else {
        y.store<C>(place + k, items[k]);
        y.store<C>(place + k + 1, items[k + 1]);
      }
    }
  }
}

/** Plan of a scan. It depends on the shape alone, and so does every bit of the results. */
struct ScanPlan {
  Lines lines;
  bool reversed = false;  // from the last element to the first
  std::int64_t chunks = 1, chunk_length = 0;

  std::int64_t blocks() const { return lines.blocks() * chunks; }
};

inline ScanPlan scan_plan(Lines lines, bool reversed) {
  lines.spread = spread_over(lines.count, blocks_for(lines.length, kScanItems), lines.inner > 1);
  ScanPlan plan{.lines = lines, .reversed = reversed, .chunk_length = lines.length};
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

/** Returns the value of a lane of the warp. */
template <class V> __device__ inline V from_lane(const V& value, int lane) {
  return moved(value, [&](std::uint32_t word) { return __shfl_sync(kAllLanes, word, lane); });
}
/** Returns the value of the lane `distance` before; that of the calling one if there is none. */
template <class V> __device__ inline V from_before(const V& value, int distance) {
  return moved(value, [&](std::uint32_t word) {
    return __shfl_up_sync(kAllLanes, word, static_cast<unsigned>(distance));
  });
}

/** Combines the values of the lanes before and the lane's own, within groups of `lanes` lanes. */
template <class S>
__device__ inline void scan_lanes(const S& s, int lanes, int lane, typename S::State& mine) {
#pragma unroll
  for (int step = 1; step < kWarpSize; step *= 2) {
    if (step >= lanes) return;
    const typename S::State other = from_before(mine, step);
    if (lane >= step) mine = s.combine(other, mine);
  }
}

/** scanned() where the threads of a line are adjacent: by warps, then over the warps of a line. */
template <class S>
__device__ inline typename S::State scanned_by_warps(const S& s, int parts, int part,
                                                     typename S::State* room,
                                                     typename S::State mine,
                                                     typename S::State& all) {
  using State = typename S::State;
  const int lanes = parts < kWarpSize ? parts : kWarpSize, lane = part % kWarpSize;
  scan_lanes(s, lanes, lane, mine);
  State before = from_before(mine, 1);
  if (lane == 0) before = s.identity();
  if (parts <= kWarpSize) {
    all = from_lane(mine, (static_cast<int>(threadIdx.x) & (kWarpSize - lanes)) + lanes - 1);
    return before;
  }
  const int warps = parts / kWarpSize, warp = part / kWarpSize,
            first = static_cast<int>(threadIdx.x) / kWarpSize - warp, other = lane & (warps - 1);
  __syncthreads();  // earlier results in `room` may still be read
  if (lane == kWarpSize - 1) room[first + warp] = mine;
  __syncthreads();
  State upto = room[first + other];
  scan_lanes(s, warps, other, upto);
  all = from_lane(upto, warps - 1);
  const State earlier = from_lane(upto, warp > 0 ? warp - 1 : 0);
  if (warp == 0) return before;
  return lane == 0 ? earlier : s.combine(earlier, before);
}

/** Returns the combination of the threads before the calling one in its line; sets `all` to that of
 *  all threads. All threads of the block must call it. */
template <class S>
__device__ inline typename S::State scanned(const S& s, const Spread& spread, Role at,
                                            typename S::State* room, typename S::State mine,
                                            typename S::State& all) {
  using State = typename S::State;
  if (!spread.across) return scanned_by_warps(s, spread.parts, at.part, room, mine, all);
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

/** Loads a thread's items in the order of the scan; identities unless they exist. */
template <class S>
__device__ inline void load_whole(const S& s, bool reversed, bool exist, std::int64_t place,
                                  std::int64_t i, typename S::State* items) {
  typename S::State loaded[kScanItems];
  if (exist) s.load_items(place, i, loaded);
#pragma unroll
  for (int k = 0; k < kScanItems; ++k)
    items[k] = !exist ? s.identity() : reversed ? loaded[kScanItems - 1 - k] : loaded[k];
}

/** Stores the results of a thread's items. `upto` is the combination of what precedes them. */
template <class S>
__device__ inline void store_whole(const S& s, bool reversed, std::int64_t place,
                                   typename S::State upto, const typename S::State* items) {
  typename S::State results[kScanItems], stored[kScanItems];
#pragma unroll
  for (int k = 0; k < kScanItems; ++k) results[k] = upto = s.combine(upto, items[k]);
#pragma unroll
  for (int k = 0; k < kScanItems; ++k)
    stored[k] = reversed ? results[kScanItems - 1 - k] : results[k];
  s.store_items(place, stored);
}

/** `sums`: stores the total of each chunk of each line at starts[line * chunks + chunk]. Otherwise
 *  `starts`, if not null, holds the prefix before each chunk. `by_items`: threads load and store
 *  their items at once. */
template <class S, bool sums, bool by_items>
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
    const std::int64_t lowest = plan.reversed ? lines.length - kScanItems - first : first;
    if constexpr (by_items) {
      load_whole(s, plan.reversed, has_line && first < end, base + lowest, lowest, items);
    } else {
#pragma unroll
      for (int k = 0; k < kScanItems; ++k) {
        const std::int64_t i = plan.reversed ? lines.length - 1 - first - k : first + k;
        const bool exists = has_line && first + k < end;
        items[k] = exists ? s.load(base + i * lines.inner, line, i) : s.identity();
      }
    }
#pragma unroll
    for (int k = 0; k < kScanItems; ++k) mine = s.combine(mine, items[k]);
    State all;
    [[maybe_unused]] State upto = s.combine(carried, scanned(s, lines.spread, at, room, mine, all));
    carried = s.combine(carried, all);
    if constexpr (!sums && by_items) {
      if (has_line && first < end) store_whole(s, plan.reversed, base + lowest, upto, items);
    } else if constexpr (!sums) {
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

/** scan() with threads that load and store their items at once, or one by one. */
template <bool by_items, class S>
void scan_planned(const ScanPlan& plan, const S& s, Device device) {
  using State = typename S::State;
  const std::int64_t count = plan.lines.count;
  const Grid grid{.blocks = plan.blocks(), .threads = plan.lines.spread.threads()};
  const runtime::Stream stream = current_stream(device);
  if (plan.chunks == 1)
    return launch(&scan_kernel<S, false, by_items>, grid, stream, plan, s,
                  static_cast<State*>(nullptr));
  const Tensor room =
      workspace(count * plan.chunks * static_cast<std::int64_t>(sizeof(State)), device);
  State* states = static_cast<State*>(room.raw_data());
  launch(&scan_kernel<S, true, by_items>, grid, stream, plan, s, states);
  ScanPlan of_chunks{.lines = {.count = count, .length = plan.chunks}, .chunk_length = plan.chunks};
  of_chunks.lines.spread = spread_over(count, blocks_for(plan.chunks, kScanItems), false);
  launch(&scan_kernel<ChunkStarts<S>, false, false>,
         {.blocks = of_chunks.blocks(), .threads = of_chunks.lines.spread.threads()}, stream,
         of_chunks, ChunkStarts<S>{s, states}, static_cast<State*>(nullptr));
  launch(&scan_kernel<S, false, by_items>, grid, stream, plan, s, states);
}

/** Scans the lines, from their ends if `reversed`. */
template <class S> void scan(const Lines& lines, bool reversed, const S& s, Device device) {
  if (lines.count == 0 || lines.length == 0) return;
  const ScanPlan plan = scan_plan(lines, reversed);
  if constexpr (MovesItems<S>)
    if (lines.inner == 1 && lines.length % kScanItems == 0 && s.aligned())
      return scan_planned<true>(plan, s, device);
  scan_planned<false>(plan, s, device);
}

}  // namespace mezzo::gpu
