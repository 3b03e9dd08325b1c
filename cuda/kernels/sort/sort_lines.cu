// The sort of entry lines. Short lines are sorted in a block's shared memory with a bitonic
// network. Where few entries of a long line are wanted, its tiles are cut to their first entries,
// found digit by digit, highest first, until the line is short. Other long lines are sorted by CUB,
// where it is predicted to be faster, or digit by digit, lowest first: each block counts the digits
// of its tile, a scan over (line, digit, tile) gives their positions, and each block moves its
// tile's entries there without changing their order.
#include "sort_lines.h"

#include <bit>
#include <cub/device/device_radix_sort.cuh>
#include <limits>

#include "../../own_kernels.h"
#include "../cub.h"
#include "../line_scan.h"
#include "short_sort.h"

namespace mezzo::gpu {

namespace {

constexpr int kSortThreads = 256, kSortWarps = kSortThreads / kWarpSize;

// ---- short lines --------------------------------------------------------------------------------

/** Sorts `slots` lines per block, each padded to `padded` entries, a power of 2, with entries that
 *  sort last. Positions differ, so no two entries are equal. */
template <class Entry>
__global__ void __launch_bounds__(kSortThreads)
    short_lines_kernel(Entry* entries, std::int64_t lines, int length, int padded, int slots) {
  MZ_SHARED(Entry, room, kShortLine);
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * slots;
  const int held = padded * slots;
  for (int i = thread; i < held; i += threads) {
    const std::int64_t line = first + i / padded;
    const bool exists = line < lines && i % padded < length;
    room[i] = exists ? entries[line * length + i % padded] : last_entry<Entry>();
  }
  sort_runs(room, held, padded);
  for (int i = thread; i < held; i += threads) {
    const std::int64_t line = first + i / padded;
    if (line < lines && i % padded < length) entries[line * length + i % padded] = room[i];
  }
}

template <class Entry> void sort_short(const EntryLines<Entry>& entries) {
  const int length = static_cast<int>(entries.length);
  const int padded = static_cast<int>(std::bit_ceil(static_cast<unsigned>(length)));
  const std::int64_t slots = std::min<std::int64_t>(
      kShortLine / padded,
      static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(entries.lines))));
  const int threads = std::clamp(static_cast<int>(slots) * padded / 2, kWarpSize, kSortThreads);
  launch(&short_lines_kernel<Entry>,
         {.blocks = blocks_for(entries.lines, slots), .threads = threads},
         current_stream(entries.memory.device()), entries.data(), entries.lines, length, padded,
         static_cast<int>(slots));
}

// ---- long lines ---------------------------------------------------------------------------------

constexpr int kDigitBits = 8, kDigits = 1 << kDigitBits;
static_assert(kDigits == kSortThreads);
/** Entries per thread in a tile, one warp width apart. */
constexpr int kTileItems = 16;
constexpr std::int64_t kTile = kTileItems * kSortThreads;

__device__ inline int digit_of(NarrowEntry e, int shift) {
  return static_cast<int>(e.key_and_index >> (32 + shift) & (kDigits - 1));
}
__device__ inline int digit_of(const WideEntry& e, int shift) {
  return static_cast<int>(e.key >> shift & (kDigits - 1));
}

/** A block's tile of one line. */
struct Tile {
  std::int64_t line, number, first;  // line, index in the line, offset of the first entry
  int count;

  __device__ Tile(std::int64_t length, std::int64_t tiles)
      : line(static_cast<std::int64_t>(blockIdx.x) / tiles),
        number(static_cast<std::int64_t>(blockIdx.x) % tiles),
        first(line * length + number * kTile) {
    const std::int64_t left = length - number * kTile;
    count = static_cast<int>(left < kTile ? left : kTile);
  }
  /** Returns the index of a digit's counter: by line, then by digit, then by tile. */
  __device__ std::int64_t counter(int digit, std::int64_t tiles) const {
    return (line * kDigits + digit) * tiles + number;
  }
};

template <class Entry>
__global__ void __launch_bounds__(kSortThreads)
    count_digits_kernel(const Entry* entries, std::int64_t length, std::int64_t tiles, int shift,
                        std::int64_t* counts) {
  MZ_SHARED(unsigned, count, kDigits);
  const int thread = static_cast<int>(threadIdx.x);
  const Tile tile(length, tiles);
  count[thread] = 0;
  __syncthreads();
  for (int i = thread; i < tile.count; i += kSortThreads)
    atomicAdd(&count[digit_of(entries[tile.first + i], shift)], 1u);
  __syncthreads();
  counts[tile.counter(thread, tiles)] = count[thread];
}

/** Converts counts to prefix sums, as a scan. */
struct Places {
  using State = std::int64_t;
  std::int64_t* counts;

  __device__ State identity() const { return 0; }
  __device__ State load(std::int64_t place, std::int64_t, std::int64_t) const {
    return counts[place];
  }
  __device__ State combine(State a, State b) const { return a + b; }
  __device__ void store(std::int64_t place, std::int64_t, std::int64_t, State before, State) const {
    counts[place] = before;
  }
};

/** Converts counts to the sums of those before them. */
void scan_counts(std::int64_t* counts, std::int64_t n, Device device) {
  if (!cub_takes_line(n))
    return scan(Lines{.count = 1, .length = n}, false, Places{counts}, device);
  const auto stream = static_cast<cudaStream_t>(current_stream(device));
  with_temporary(
      [&](void* storage, std::size_t& bytes) {
        return cub::DeviceScan::ExclusiveSum(storage, bytes, counts, counts, static_cast<int>(n),
                                             stream);
      },
      device);
}

/** Returns the lanes of the warp with the same digit. All lanes must call it. */
__device__ inline unsigned lanes_like(int digit) {
  unsigned like = kAllLanes;
#pragma unroll
  for (int bit = 0; bit <= kDigitBits; ++bit) {  // one more bit, for lanes without an entry
    const unsigned ones = __ballot_sync(kAllLanes, digit >> bit & 1);
    like &= digit >> bit & 1 ? ones : ~ones;
  }
  return like;
}

__device__ inline int bits_in(unsigned x) {
#ifdef __CUDA_ARCH__
  return __popc(x);
#else
  return std::popcount(x);
#endif
}

/** Moves the entries of a tile. A warp's entries are adjacent and processed a row of lanes at a
 *  time, so that those with one digit keep their order. */
template <class Entry>
__global__ void __launch_bounds__(kSortThreads)
    move_digits_kernel(const Entry* entries, std::int64_t length, std::int64_t tiles, int shift,
                       const std::int64_t* places, Entry* moved) {
  // Per warp and digit: the number of entries of earlier warps of the tile.
  MZ_SHARED(unsigned, before, kSortWarps* kDigits);
  MZ_SHARED(std::int64_t, start, kDigits);
  const int thread = static_cast<int>(threadIdx.x), warp = thread / kWarpSize,
            lane = thread % kWarpSize;
  unsigned* const mine = before + warp * kDigits;
  const Tile tile(length, tiles);
  start[thread] = places[tile.counter(thread, tiles)];
  for (int w = 0; w < kSortWarps; ++w) before[w * kDigits + thread] = 0;
  __syncthreads();
  Entry held[kTileItems];
  int digit[kTileItems];
#pragma unroll
  for (int k = 0; k < kTileItems; ++k) {
    const int i = (warp * kTileItems + k) * kWarpSize + lane;
    digit[k] = kDigits;
    if (i >= tile.count) continue;
    held[k] = entries[tile.first + i];
    digit[k] = digit_of(held[k], shift);
    atomicAdd(&mine[digit[k]], 1u);
  }
  __syncthreads();
  unsigned sum = 0;
  for (int w = 0; w < kSortWarps; ++w) {
    const unsigned count = before[w * kDigits + thread];
    before[w * kDigits + thread] = sum;
    sum += count;
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kTileItems; ++k) {
    const unsigned like = lanes_like(digit[k]);
    const bool exists = digit[k] < kDigits;
    const int earlier = bits_in(like & ((1u << lane) - 1));
    const unsigned place = exists ? mine[digit[k]] + static_cast<unsigned>(earlier) : 0;
    __syncwarp();
    if (exists) {
      if (earlier == 0) mine[digit[k]] += static_cast<unsigned>(bits_in(like));
      moved[start[digit[k]] + place] = held[k];
    }
    __syncwarp();
  }
}

template <class Entry> void sort_long(EntryLines<Entry>& entries, int bits) {
  const Device device = entries.memory.device();
  const runtime::Stream stream = current_stream(device);
  const std::int64_t tiles = blocks_for(entries.length, kTile),
                     counters = entries.lines * kDigits * tiles;
  const Tensor counts =
      workspace(counters * static_cast<std::int64_t>(sizeof(std::int64_t)), device);
  std::int64_t* places = static_cast<std::int64_t*>(counts.raw_data());
  EntryLines<Entry> moved(entries.lines, entries.length, device);
  const Grid grid{.blocks = entries.lines * tiles, .threads = kSortThreads};
  for (int shift = 0; shift < bits; shift += kDigitBits) {
    launch(&count_digits_kernel<Entry>, grid, stream, entries.data(), entries.length, tiles, shift,
           places);
    scan_counts(places, counters, device);
    launch(&move_digits_kernel<Entry>, grid, stream, entries.data(), entries.length, tiles, shift,
           places, moved.data());
    std::swap(entries, moved);
  }
}

// ---- the first entries of long lines ------------------------------------------------------------

/** Most entries of which a line is cut to tiles: each launch leaves an eighth or less of it. */
constexpr std::int64_t kMostFirst = kTile / 8;

/** The levels of digits: those of the key, the highest first, then those of the index. */
template <class Entry> constexpr int kLevels = 2 * Entry::kKeyBytes;
__device__ inline int digit_at(NarrowEntry e, int level) {
  return static_cast<int>(e.key_and_index >> (56 - kDigitBits * level) & (kDigits - 1));
}
__device__ inline int digit_at(const WideEntry& e, int level) {
  const std::uint64_t word = level < 8 ? e.key : e.place;
  return static_cast<int>(word >> (56 - kDigitBits * (level & 7)) & (kDigits - 1));
}

/** A digit, and the numbers of entries with lower ones and with this one. */
struct Pivot {
  int digit;
  unsigned below, equal;
};

/** Returns the digit of the `wanted`-th entry, by the numbers of entries with each digit. All
 *  threads of the block must call it. */
__device__ inline Pivot pivot_of(const unsigned* count, unsigned wanted, Pivot* room) {
  constexpr int kEach = kDigits / kWarpSize;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < kWarpSize) {
    unsigned own = 0;
    for (int k = 0; k < kEach; ++k) own += count[thread * kEach + k];
    unsigned upto = own;
    for (int step = 1; step < kWarpSize; step *= 2) {
      const unsigned before = __shfl_up_sync(kAllLanes, upto, static_cast<unsigned>(step));
      if (thread >= step) upto += before;
    }
    unsigned below = upto - own;
    if (below < wanted && wanted <= upto) {
      int digit = thread * kEach;
      while (below + count[digit] < wanted) below += count[digit++];
      *room = {digit, below, count[digit]};
    }
  }
  __syncthreads();
  return *room;
}

/** Stores the first `kept` entries of each tile of a line, in any order; or only the last of these.
 *  Entries are compared digit by digit from `level` on, until what is left needs no comparison:
 *  those with a lower digit than the last of the first entries are among them, those with a higher
 *  one are not. */
template <class Entry, bool only_last>
__global__ void __launch_bounds__(kSortThreads)
    first_entries_kernel(const Entry* entries, std::int64_t length, std::int64_t tiles, int level,
                         int kept, Entry* first, std::int64_t first_length) {
  MZ_SHARED(unsigned, count, kDigits);
  MZ_SHARED(unsigned, stored, 1);
  MZ_SHARED(Pivot, room, 1);
  const int thread = static_cast<int>(threadIdx.x);
  const Tile tile(length, tiles);
  Entry held[kTileItems];
  unsigned open = 0, taken = 0;  // bit k: held[k]
#pragma unroll
  for (int k = 0; k < kTileItems; ++k) {
    const int i = k * kSortThreads + thread;
    if (i >= tile.count) continue;
    held[k] = entries[tile.first + i];
    open |= 1u << k;
  }
  if (thread == 0) stored[0] = 0;
  auto wanted = static_cast<unsigned>(kept < tile.count ? kept : tile.count);
  for (; level < kLevels<Entry>; ++level) {
    count[thread] = 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTileItems; ++k)
      if (open >> k & 1) atomicAdd(&count[digit_at(held[k], level)], 1u);
    __syncthreads();
    const Pivot pivot = pivot_of(count, wanted, room);
#pragma unroll
    for (int k = 0; k < kTileItems; ++k) {
      if (!(open >> k & 1)) continue;
      const int digit = digit_at(held[k], level);
      if (digit < pivot.digit) taken |= 1u << k;
      if (digit != pivot.digit) open &= ~(1u << k);
    }
    wanted -= pivot.below;
    if (pivot.equal == (only_last ? 1 : wanted)) break;
  }
  taken = only_last ? open : taken | open;
  if (taken == 0) return;
  const unsigned place = atomicAdd(&stored[0], static_cast<unsigned>(bits_in(taken)));
  Entry* to = first + tile.line * first_length + (only_last ? 0 : tile.number * kept) + place;
#pragma unroll
  for (int k = 0; k < kTileItems; ++k)
    if (taken >> k & 1) *to++ = held[k];
}

/** Returns the first level at which keys of `bits` bits differ. */
template <class Entry> int first_level(int bits) {
  return (8 * Entry::kKeyBytes - bits) / kDigitBits;
}

/** Drops entries of long lines that are not among the first `kept`, until the lines are short. */
template <class Entry> void drop_last(EntryLines<Entry>& entries, std::int64_t kept, int bits) {
  const Device device = entries.memory.device();
  while (entries.length > kShortLine) {
    const std::int64_t tiles = blocks_for(entries.length, kTile), whole = (tiles - 1) * kTile;
    EntryLines<Entry> first(entries.lines,
                            (tiles - 1) * kept + std::min(kept, entries.length - whole), device);
    launch(&first_entries_kernel<Entry, false>,
           {.blocks = entries.lines * tiles, .threads = kSortThreads}, current_stream(device),
           entries.data(), entries.length, tiles, first_level<Entry>(bits), static_cast<int>(kept),
           first.data(), first.length);
    std::swap(entries, first);
  }
}

template <class Entry> bool keep_one(EntryLines<Entry>& entries, std::int64_t place, int bits) {
  constexpr std::int64_t kLeast = kShortLine / 2;  // shorter lines share a block when sorted
  if (entries.lines == 0 || entries.length <= kLeast || entries.length > kTile) return false;
  const Device device = entries.memory.device();
  EntryLines<Entry> one(entries.lines, 1, device);
  launch(&first_entries_kernel<Entry, true>, {.blocks = entries.lines, .threads = kSortThreads},
         current_stream(device), entries.data(), entries.length, std::int64_t{1},
         first_level<Entry>(bits), static_cast<int>(place + 1), one.data(), one.length);
  std::swap(entries, one);
  return true;
}

// ---- long lines by CUB --------------------------------------------------------------------------

/** Predicted seconds of a sort of long lines on an H100, from launches in a graph and bytes of
 *  memory; nothing of it was measured. */
struct SortModel {
  static constexpr double kLaunch = 2.5e-6, kBytesPerSecond = 3.0e12;

  /** Mezzo's kernels load an entry twice in each pass, and store it alone, in a sector of 32 bytes.
   *  `launches`: of the scan. */
  static double own(int passes, int launches, double entries) {
    return passes * ((2 + launches) * kLaunch + entries * (8 + 8 + 32) / kBytesPerSecond);
  }
  /** CUB sorts line by line. It counts the digits of all passes at once, and then loads and stores
   *  an entry once in each pass (Adinets and Merrill, Onesweep, 2022). Before each pass, and before
   *  the count, it fills memory with zeros, twice there: a node of a graph as a kernel is. */
  static double cub(int passes, double lines, double entries) {
    return lines * 2 * (2 + passes) * kLaunch + entries * (8 + 16 * passes) / kBytesPerSecond;
  }
};

bool cub_is_faster(const EntryLines<NarrowEntry>& entries, int bits) {
  const int passes = static_cast<int>(blocks_for(bits, kDigitBits));
  const std::int64_t counters = entries.lines * kDigits * blocks_for(entries.length, kTile);
  const int launches = cub_takes_line(counters) ? 2 : 1;
  const auto lines = static_cast<double>(entries.lines),
             count = lines * static_cast<double>(entries.length);
  return SortModel::cub(passes, lines, count) < SortModel::own(passes, launches, count);
}

/** Keys are the high halves of entries; the order of equal ones stays. */
void sort_by_cub(EntryLines<NarrowEntry>& entries, int bits) {
  constexpr int kFirstBit = 32;
  const Device device = entries.memory.device();
  const auto stream = static_cast<cudaStream_t>(current_stream(device));
  EntryLines<NarrowEntry> sorted(entries.lines, entries.length, device);
  const auto* const from = static_cast<const std::uint64_t*>(entries.memory.raw_data());
  auto* const to = static_cast<std::uint64_t*>(sorted.memory.raw_data());
  for (std::int64_t line = 0; line < entries.lines; ++line) {
    const std::int64_t first = line * entries.length;
    with_temporary(
        [&](void* storage, std::size_t& bytes) {
          return cub::DeviceRadixSort::SortKeys(storage, bytes, from + first, to + first,
                                                entries.length, kFirstBit, kFirstBit + bits,
                                                stream);
        },
        device);
  }
  std::swap(entries, sorted);
}

template <class Entry> void sort(EntryLines<Entry>& entries, int bits) {
  if (entries.lines == 0 || entries.length < 2) return;
  if (entries.length <= kShortLine) return sort_short(entries);
  if constexpr (std::is_same_v<Entry, NarrowEntry>)
    if (!OwnKernels::active() && cub_is_faster(entries, bits)) return sort_by_cub(entries, bits);
  sort_long(entries, bits);
}

template <class Entry> void sort_start(EntryLines<Entry>& entries, std::int64_t kept, int bits) {
  if (entries.lines > 0 && kept <= kMostFirst) drop_last(entries, kept, bits);
  sort(entries, bits);
}

}  // namespace

void sort_lines(EntryLines<NarrowEntry>& entries, int bits) { sort(entries, bits); }
void sort_lines(EntryLines<WideEntry>& entries, int bits) { sort(entries, bits); }
void sort_first(EntryLines<NarrowEntry>& entries, std::int64_t kept, int bits) {
  sort_start(entries, kept, bits);
}
void sort_first(EntryLines<WideEntry>& entries, std::int64_t kept, int bits) {
  sort_start(entries, kept, bits);
}
bool select_one(EntryLines<NarrowEntry>& entries, std::int64_t place, int bits) {
  return keep_one(entries, place, bits);
}
bool select_one(EntryLines<WideEntry>& entries, std::int64_t place, int bits) {
  return keep_one(entries, place, bits);
}

}  // namespace mezzo::gpu
