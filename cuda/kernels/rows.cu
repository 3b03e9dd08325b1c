// The CUDA kernels that copy and add rows selected by an index. Where several rows with one index
// are added, they are sorted by index first, so that rows with one destination are adjacent, in
// index order. Where the last of them is kept, a table has its number.
#include "rows.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "../../tensor/cpu/order.h"
#include "axes.h"
#include "items.h"
#include "names.h"
#include "reduce/scan.h"
#include "shape/copy.h"
#include "sort/short_sort.h"
#include "typed.h"
#include "words.h"

namespace mezzo::gpu {

namespace {

__device__ inline std::int64_t place_in(const Rows& x, std::int64_t outer, std::int64_t row,
                                        std::int64_t inner) {
  return place_of(x.outer, outer) + place_of(x.rows, row) + place_of(x.inner, inner);
}

/** The (outer, row, inner) coordinates of an element. */
struct Spot {
  std::int64_t outer, row, inner;

  __device__ Spot(std::int64_t item, std::int64_t rows, std::int64_t width) {
    const Split by_width(item, width), by_row(by_width.quotient, rows);
    outer = by_row.quotient;
    row = by_row.rest;
    inner = by_width.rest;
  }
};

/** A copy of rows as words: operands, number of rows, words per row and bytes per word. */
struct Copy {
  Rows from, to;
  std::int64_t rows, width;
  int bytes;

  std::int64_t words() const { return to.outer.count * rows * width; }
};

/** Returns the copy with the widest words possible, up to 16 bytes, where elements are contiguous
 *  in both operands. */
Copy copy_of(const Rows& from, const Rows& to, std::int64_t rows) {
  Copy copy{from, to, rows, to.inner.count, static_cast<int>(item_size(to.dtype))};
  const auto side_by_side = [](const Rows& x) {
    return x.inner.rank == 1 && x.inner.strides[0] == 1;
  };
  if (!side_by_side(from) || !side_by_side(to)) return copy;
  const auto halves = [&](const Rows& x) {
    bool fits =
        reinterpret_cast<std::uintptr_t>(x.data) % static_cast<std::uintptr_t>(2 * copy.bytes) == 0;
    for (const Axes* axes : {&x.outer, &x.rows})
      for (int i = 0; i < axes->rank; ++i) fits = fits && axes->strides[i] % 2 == 0;
    return fits && x.inner.count % 2 == 0;
  };
  const auto halve = [](Rows& x) {
    for (Axes* axes : {&x.outer, &x.rows})
      for (int i = 0; i < axes->rank; ++i) axes->strides[i] /= 2;
    x.inner.count /= 2;
    x.inner.sizes[0] /= 2;
  };
  while (copy.bytes < 16 && halves(copy.from) && halves(copy.to)) {
    halve(copy.from);
    halve(copy.to);
    copy.bytes *= 2;
    copy.width /= 2;
  }
  return copy;
}

// Words that a thread of take_kernel copies: their loads do not wait for each other.
constexpr int kTaken = 4;

/** Copies words of type Word of the calling thread. */
template <class Word> __device__ void take_words(const Copy& copy, const NamesHere& names) {
  const std::int64_t begin =
      static_cast<std::int64_t>(blockIdx.x) * kTaken * kItemThreads + threadIdx.x;
  const std::int64_t items = copy.to.outer.count * copy.rows * copy.width;
  std::int64_t to[kTaken];
  Word words[kTaken];
#pragma unroll
  for (int k = 0; k < kTaken; ++k) {
    const std::int64_t item = begin + k * kItemThreads;
    if (item >= items) break;
    const Spot at(item, copy.rows, copy.width);
    const std::int64_t row = names.row(at.row);
    to[k] = place_in(copy.to, at.outer, at.row, at.inner);
    words[k] = row < 0 ? Word{}
                       : static_cast<const Word*>(
                             copy.from.data)[place_in(copy.from, at.outer, row, at.inner)];
  }
#pragma unroll
  for (int k = 0; k < kTaken; ++k)
    if (begin + k * kItemThreads < items) static_cast<Word*>(copy.to.data)[to[k]] = words[k];
}

__global__ void __launch_bounds__(kItemThreads)
    take_kernel(const Copy __grid_constant__ copy, const NamesHere __grid_constant__ names) {
  switch (copy.bytes) {
    case 1: return take_words<std::uint8_t>(copy, names);
    case 2: return take_words<std::uint16_t>(copy, names);
    case 4: return take_words<std::uint32_t>(copy, names);
    case 8: return take_words<std::uint64_t>(copy, names);
    default: return take_words<Pack<std::uint64_t, 2>>(copy, names);
  }
}

// ---- the last of several rows with one index ----------------------------------------------------

/** Sets last[row] to the last index element that selects the row; before, it is -1. */
__global__ void __launch_bounds__(kItemThreads)
    last_kernel(const NamesHere __grid_constant__ names, std::int64_t count, std::int32_t* last) {
  const std::int64_t i = item_here();
  if (i >= count) return;
  const std::int64_t row = names.row(i);
  if (row >= 0) atomicMax(last + row, static_cast<std::int32_t>(i));
}

__global__ void __launch_bounds__(kItemThreads)
    put_last_kernel(const Copy __grid_constant__ copy, const NamesHere __grid_constant__ names,
                    const std::int32_t* last) {
  const std::int64_t item = item_here();
  if (item >= copy.to.outer.count * copy.rows * copy.width) return;
  const Spot at(item, copy.rows, copy.width);
  const std::int64_t row = names.row(at.row);
  if (row < 0 || last[row] != at.row) return;
  copy_word(copy.from.data, place_in(copy.from, at.outer, at.row, at.inner), copy.to.data,
            place_in(copy.to, at.outer, row, at.inner), copy.bytes);
}

/** Returns true if a table of the rows costs less than sorting the index. */
bool has_table(std::int64_t count, std::int64_t rows) {
  constexpr std::int64_t kSmall = 1 << 20;
  return count <= std::numeric_limits<std::int32_t>::max() && rows <= std::max(kSmall, 8 * count);
}

// ---- rows in the order of their indices ---------------------------------------------------------

/** Returns the entry to sort of an index element. The key is the row, or `rows`, which sorts last,
 *  for skipped ones. */
template <class Entry>
__device__ Entry entry_of(const NamesHere& names, std::int64_t i, std::int64_t rows,
                          std::int64_t skipped) {
  const std::int64_t row = names.row(i);
  const bool counts = row >= 0 && row != skipped;
  const auto key = static_cast<std::uint64_t>(counts ? row : rows);
  if constexpr (std::is_same_v<Entry, NarrowEntry>)
    return {key << 32 | static_cast<std::uint64_t>(i)};
  else
    return {key, static_cast<std::uint64_t>(i)};
}

template <class Entry>
__global__ void __launch_bounds__(kItemThreads)
    name_kernel(const NamesHere __grid_constant__ names, std::int64_t count, std::int64_t rows,
                std::int64_t skipped, Entry* entries) {
  const std::int64_t i = item_here();
  if (i < count) entries[i] = entry_of<Entry>(names, i, rows, skipped);
}

/** Sorted entries of 8 bytes: for fewer than 2^31 rows and indices. */
struct NarrowEntries {
  const NarrowEntry* data;

  __device__ std::int64_t name(std::int64_t i) const {
    return static_cast<std::int64_t>(data[i].sorted_by());
  }
  __device__ std::int64_t place(std::int64_t i) const { return data[i].index(); }
};

/** Sorted entries of 8 or 16 bytes. */
struct AnyEntries {
  const void* data;
  bool narrow;

  __device__ std::int64_t name(std::int64_t i) const {
    return narrow ? narrow_entries().name(i)
                  : static_cast<std::int64_t>(static_cast<const WideEntry*>(data)[i].sorted_by());
  }
  __device__ std::int64_t place(std::int64_t i) const {
    return narrow ? narrow_entries().place(i) : static_cast<const WideEntry*>(data)[i].index();
  }
  /** Returns the entries of 8 bytes. */
  MZ_HD NarrowEntries narrow_entries() const { return {static_cast<const NarrowEntry*>(data)}; }
};

/** Sorted entries as a kernel argument. */
template <class Entries> struct Groups {
  Entries entries;
  std::int64_t count, rows;

  __device__ std::int64_t name(std::int64_t i) const { return entries.name(i); }
  __device__ std::int64_t place(std::int64_t i) const { return entries.place(i); }
  __device__ bool named(std::int64_t i) const { return name(i) < rows; }
  __device__ bool first(std::int64_t i) const { return i == 0 || name(i - 1) != name(i); }
  __device__ bool last(std::int64_t i) const { return i + 1 == count || name(i + 1) != name(i); }
};
using AnyGroups = Groups<AnyEntries>;
using NarrowGroups = Groups<NarrowEntries>;

/** An index, sorted. */
struct SortedNames {
  Tensor memory;
  AnyGroups groups;
};

/** Sets the entries to those of an index, sorted. */
template <class Entry>
void sort_names(EntryLines<Entry>& entries, const Names& names, std::int64_t rows,
                std::int64_t skipped) {
  launch_over(names.count(), names.memory.device(), &name_kernel<Entry>, NamesHere(names),
              names.count(), rows, skipped, entries.data());
  sort_lines(entries, std::bit_width(static_cast<std::uint64_t>(rows)));
}

/** Returns true if entries of 8 bytes serve. */
bool are_narrow(const Names& names, std::int64_t rows) {
  return std::max(rows, names.count()) <= std::numeric_limits<std::int32_t>::max();
}

template <class Entry>
SortedNames sorted_as(const Names& names, std::int64_t rows, std::int64_t skipped) {
  EntryLines<Entry> entries(1, names.count(), names.memory.device());
  sort_names(entries, names, rows, skipped);
  return {entries.memory,
          {{entries.data(), std::is_same_v<Entry, NarrowEntry>}, names.count(), rows}};
}

SortedNames sorted_names(const Names& names, std::int64_t rows, std::int64_t skipped) {
  return are_narrow(names, rows) ? sorted_as<NarrowEntry>(names, rows, skipped)
                                 : sorted_as<WideEntry>(names, rows, skipped);
}

__global__ void __launch_bounds__(kItemThreads)
    put_kernel(const Copy __grid_constant__ copy, const AnyGroups groups) {
  const std::int64_t item = item_here();
  if (item >= copy.to.outer.count * copy.rows * copy.width) return;
  const Spot at(item, copy.rows, copy.width);
  if (!groups.named(at.row) || !groups.last(at.row)) return;
  copy_word(copy.from.data, place_in(copy.from, at.outer, groups.place(at.row), at.inner),
            copy.to.data, place_in(copy.to, at.outer, groups.name(at.row), at.inner), copy.bytes);
}

/** A segmented scan: sums restart with each row; lines are columns of the rows. */
template <class C> struct RowSums {
  struct State {
    C sum;
    std::int64_t first;  // first sorted entry of the row; negative: not contained in this state
  };
  AnyGroups groups;
  Rows from, to;
  C alpha;
  bool overwrite, average;

  __device__ State identity() const { return {C(0), -1}; }
  __device__ State load(std::int64_t, std::int64_t line, std::int64_t i) const {
    const std::int64_t begins = groups.first(i) ? i : -1;
    if (!groups.named(i)) return {C(0), begins};
    const Split at(line, to.inner.count);
    const std::int64_t place = place_in(from, at.quotient, groups.place(i), at.rest);
    return {static_cast<C>(alpha * load_element<C>(from.data, from.dtype, place)), begins};
  }
  __device__ State combine(State a, State b) const {
    return b.first >= 0 ? b : State{cpu_kernels::Plus{}(a.sum, b.sum), a.first};
  }
  __device__ void store(std::int64_t, std::int64_t line, std::int64_t i, State, State upto) const {
    if (!groups.named(i) || !groups.last(i)) return;
    const Split at(line, to.inner.count);
    const std::int64_t place = place_in(to, at.quotient, groups.name(i), at.rest);
    C sum = upto.sum;
    if (average) sum /= static_cast<C>(i - upto.first + 1);
    if (!overwrite) sum = cpu_kernels::Plus{}(sum, load_element<C>(to.data, to.dtype, place));
    store_element<C>(to.data, to.dtype, place, sum);
  }
};

// ---- sums of rows of packs ----------------------------------------------------------------------
//
// The sorted entries are cut into chunks of equal length, and the rows of a chunk are added one
// after another, each loaded once. A segment, the entries with one index, that lies in one chunk is
// written at once. Of one that does not, each chunk writes a partial sum, and the chunk in which it
// begins adds these in a second launch. The order of sums depends on the indices alone.

/** Rows of packs of T with f32 sums. */
struct SegmentSums {
  Axes from_rows, to_rows;  // offsets of rows, in elements
  const void* from;
  void* to;
  int packs;       // per row
  int length;      // entries of a chunk
  float* partial;  // two rows per chunk: of its first segment if that began before the
                   // chunk, and of its last if that goes on after it
  float alpha;
  bool overwrite, average;
};

/** The calling thread's chunk, its entries, and its pack; a block has packs of several chunks. */
struct ChunkPack {
  std::int64_t chunk, begin, end;
  int pack;
  bool exists;

  __device__ ChunkPack(const SegmentSums& s, std::int64_t count) {
    const Split at(item_here(), s.packs);
    chunk = at.quotient;
    pack = static_cast<int>(at.rest);
    begin = chunk * s.length;
    end = begin + s.length < count ? begin + s.length : count;
    exists = begin < count;
  }
};

/** Writes the sum of a segment, of which `last` is the last entry, to its row. */
template <class T>
__device__ void put_segment(const SegmentSums& s, const NarrowGroups& groups, int pack,
                            std::int64_t last, float* sum) {
  constexpr int kWidth = kPerPack<T>;
  const std::int64_t row = groups.name(last);
  T* const to = static_cast<T*>(s.to) + place_of(s.to_rows, row) + pack * kWidth;
  if (s.average) {
    std::int64_t low = -1, high = last;  // the first entry is in (low, high]
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (groups.name(middle) == row ? high : low) = middle;
    }
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum[k] /= static_cast<float>(last - high + 1);
  }
  if (!s.overwrite) {
    float own[kWidth];
    load_values<kWidth>(to, own);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum[k] += own[k];
  }
  store_values<kWidth>(to, sum);
}

/** Sums the segments of the calling thread's chunk and pack. */
template <class T> __device__ void sum_segments(const SegmentSums& s, const NarrowGroups& groups) {
  constexpr int kWidth = kPerPack<T>, kAhead = 4;  // rows that are loaded together
  const ChunkPack at(s, groups.count);
  if (!at.exists) return;
  float* const partial = s.partial + (2 * at.chunk * s.packs + at.pack) * kWidth;
  float sum[kWidth] = {};
  bool began_before = !groups.first(at.begin);
#pragma unroll 1
  for (std::int64_t i = at.begin; i < at.end; i += kAhead) {
    PackWords rows[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (i + j < at.end && groups.named(i + j))
        rows[j] = reinterpret_cast<const PackWords*>(
            static_cast<const T*>(s.from) + place_of(s.from_rows, groups.place(i + j)))[at.pack];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (i + j >= at.end || !groups.named(i + j)) continue;
      float values[kWidth];
      widen<T>(rows[j], values);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum[k] += s.alpha * values[k];
      const bool goes_on = !groups.last(i + j);
      if (goes_on && i + j + 1 < at.end) continue;
      if (began_before)
        store_values<kWidth>(partial, sum);
      else if (goes_on)
        store_values<kWidth>(partial + s.packs * kWidth, sum);
      else
        put_segment<T>(s, groups, at.pack, i + j, sum);
      began_before = false;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum[k] = 0;
    }
  }
}

template <class T>
__global__ void __launch_bounds__(kItemThreads)
    segment_sums_kernel(const SegmentSums __grid_constant__ s, const NarrowGroups groups) {
  sum_segments<T>(s, groups);
}

/** Does the same for an index of at most kShortLine elements, which each block sorts. The first
 *  block stores the sorted entries. `rows`, `skipped`: as in entry_of(). */
template <class T>
__global__ void __launch_bounds__(kItemThreads)
    short_segment_sums_kernel(const SegmentSums __grid_constant__ s,
                              const NamesHere __grid_constant__ names, int count, int padded,
                              std::int64_t rows, std::int64_t skipped, NarrowEntry* sorted) {
  MZ_SHARED(NarrowEntry, room, kShortLine);
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < padded; i += kItemThreads)
    room[i] =
        i < count ? entry_of<NarrowEntry>(names, i, rows, skipped) : last_entry<NarrowEntry>();
  sort_runs(room, padded, padded);
  if (blockIdx.x == 0)
    for (int i = thread; i < count; i += kItemThreads) sorted[i] = room[i];
  sum_segments<T>(s, {{room}, count, rows});
}

/** Returns the last entry with the index of entry i. */
__device__ inline std::int64_t end_of_segment(const NarrowGroups& groups, std::int64_t i) {
  const std::int64_t row = groups.name(i);
  std::int64_t step = 1;
  while (i + step < groups.count && groups.name(i + step) == row) {
    i += step;
    step *= 2;
  }
  std::int64_t beyond = i + step < groups.count ? i + step : groups.count;
  while (beyond - i > 1) {
    const std::int64_t middle = i + (beyond - i) / 2;
    (groups.name(middle) == row ? i : beyond) = middle;
  }
  return i;
}

/** Adds the partial sums of the segment that begins in the calling thread's chunk and goes on after
 *  it. */
template <class T>
__global__ void __launch_bounds__(kItemThreads)
    join_segments_kernel(const SegmentSums __grid_constant__ s, const NarrowGroups groups) {
  constexpr int kWidth = kPerPack<T>;
  const ChunkPack at(s, groups.count);
  if (!at.exists) return;
  std::int64_t last = at.end - 1;
  if (!groups.named(last) || groups.last(last)) return;
  const std::int64_t row = groups.name(last);
  if (groups.name(at.begin) == row && !groups.first(at.begin)) return;  // began before this chunk
  last = end_of_segment(groups, last);
  const std::int64_t chunks = last / s.length - at.chunk,
                     stride = std::int64_t{2} * s.packs * kWidth;
  const float* partial = s.partial + at.chunk * stride + at.pack * kWidth;
  float sum[kWidth];
  load_values<kWidth>(partial + s.packs * kWidth, sum);
#pragma unroll 4
  for (std::int64_t chunk = 1; chunk <= chunks; ++chunk) {
    float values[kWidth];
    load_values<kWidth>(partial + chunk * stride, values);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum[k] += values[k];
  }
  put_segment<T>(s, groups, at.pack, last, sum);
}

/** Returns the entries of a chunk: few, so that the chunks fill a GPU. */
int entries_of_chunk(std::int64_t count, std::int64_t packs) {
  constexpr std::int64_t kLeast = 16, kMost = 256, kOneLaunch = 64;
  if (count <= kOneLaunch) return static_cast<int>(count);
  return static_cast<int>(std::clamp(count * packs / (kPlenty * kItemThreads), kLeast, kMost));
}

/** Returns true if rows are whole packs of f16, bf16 or f32 in both, each in its place. */
bool have_pack_rows(const Rows& from, const Rows& to, DType compute) {
  const auto fits = [&](const Rows& x) {
    bool aligned = reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
    for (int i = 0; i < x.rows.rank; ++i)
      aligned = aligned && x.rows.strides[i] % elements_per_pack(x.dtype) == 0;
    return aligned && x.outer.count == 1 && x.inner.rank == 1 && x.inner.strides[0] == 1;
  };
  return compute == DType::f32 && from.dtype == to.dtype && are_packs(to.inner.count, to.dtype) &&
         fits(from) && fits(to);
}

void add_pack_rows(const Rows& from, const Names& names, std::int64_t rows, const Rows& to,
                   const AddRows& how) {
  const Device device = names.memory.device();
  const std::int64_t count = names.count();
  visit_packed(to.dtype, [&]<class T>(std::type_identity<T>) {
    const std::int64_t packs = to.inner.count / kPerPack<T>;
    SegmentSums sums{.from_rows = from.rows,
                     .to_rows = to.rows,
                     .from = from.data,
                     .to = to.data,
                     .packs = static_cast<int>(packs),
                     .length = entries_of_chunk(count, packs),
                     .partial = nullptr,
                     .alpha = static_cast<float>(how.alpha),
                     .overwrite = how.overwrite,
                     .average = how.average};
    const std::int64_t chunks = blocks_for(count, sums.length), items = chunks * packs;
    const Tensor room =
        workspace(2 * chunks * to.inner.count * std::int64_t{sizeof(float)}, device);
    sums.partial = static_cast<float*>(room.raw_data());
    EntryLines<NarrowEntry> entries(1, count, device);
    // A sort by each block takes no longer than one by one block if all run at once.
    const bool is_short = count <= kShortLine && items <= kPlenty * kItemThreads;
    if (is_short)
      launch_over(items, device, &short_segment_sums_kernel<T>, sums, NamesHere(names),
                  static_cast<int>(count),
                  static_cast<int>(std::bit_ceil(static_cast<std::uint64_t>(count))), rows,
                  how.skipped, entries.data());
    else
      sort_names(entries, names, rows, how.skipped);
    const NarrowGroups groups{{entries.data()}, count, rows};
    if (!is_short) launch_over(items, device, &segment_sums_kernel<T>, sums, groups);
    if (chunks > 1) launch_over(items, device, &join_segments_kernel<T>, sums, groups);
  });
}

}  // namespace

void take_rows(const Rows& from, const Names& names, const Rows& to) {
  const Copy copy = copy_of(from, to, names.count());
  launch(&take_kernel,
         {.blocks = blocks_for(copy.words(), kTaken * kItemThreads), .threads = kItemThreads},
         current_stream(names.memory.device()), copy, NamesHere(names));
}

void put_rows(const Rows& from, const Names& names, std::int64_t rows, const Rows& to) {
  const Copy copy = copy_of(from, to, names.count());
  const Device device = names.memory.device();
  if (copy.words() == 0) return;
  if (!has_table(names.count(), rows))
    return launch_over(copy.words(), device, &put_kernel, copy,
                       sorted_names(names, rows, -1).groups);
  Tensor table = workspace(rows * std::int64_t{sizeof(std::int32_t)}, device);
  fill_elements(table, 0xFF);  // -1 in each number
  auto* const last = static_cast<std::int32_t*>(table.raw_data());
  const NamesHere here(names);
  launch_over(names.count(), device, &last_kernel, here, names.count(), last);
  launch_over(copy.words(), device, &put_last_kernel, copy, here, last);
}

void add_rows(const Rows& from, const Names& names, std::int64_t rows, const Rows& to,
              DType compute, const AddRows& how) {
  const std::int64_t columns = to.outer.count * to.inner.count;
  if (names.count() == 0 || columns == 0) return;
  if (are_narrow(names, rows) && have_pack_rows(from, to, compute))
    return add_pack_rows(from, names, rows, to, how);
  const SortedNames sorted = sorted_names(names, rows, how.skipped);
  const AnyGroups& groups = sorted.groups;
  visit_compute(compute, [&]<class C>(std::type_identity<C>) {
    scan(Lines{.count = columns, .length = names.count(), .inner = to.inner.count}, false,
         RowSums<C>{groups, from, to, static_cast<C>(how.alpha), how.overwrite, how.average},
         names.memory.device());
  });
}

}  // namespace mezzo::gpu
