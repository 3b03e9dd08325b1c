// The CUDA kernels that copy and add rows selected by an index. Where several rows may have one
// index, they are sorted by index first, so that rows with one destination are adjacent, in index
// order.
#include "rows.h"

#include <algorithm>
#include <bit>

#include "../../tensor/cpu/order.h"
#include "axes.h"
#include "items.h"
#include "reduce/scan.h"
#include "sort/sort_lines.h"
#include "typed.h"
#include "words.h"

namespace mezzo::gpu {

namespace {

__device__ inline std::int64_t place_in(const Rows& x, std::int64_t outer, std::int64_t row,
                                        std::int64_t inner) {
  return place_of(x.outer, outer) + place_of(x.rows, row) + place_of(x.inner, inner);
}

/** Names as a kernel argument. */
struct NamesHere {
  const void* data;
  bool wide;
  std::int64_t size, step;
  Axes base;
  IndexErrorWord* bad;

  explicit NamesHere(const Names& names)
      : data(names.memory.raw_data()),
        wide(names.memory.dtype() == DType::i64),
        size(names.size),
        step(names.step),
        base(names.base),
        bad(names.bad) {}
  /** Returns the selected row, negative if the index is out of range. */
  __device__ std::int64_t row(std::int64_t at) const {
    const std::int64_t value = wide ? static_cast<const std::int64_t*>(data)[at]
                                    : static_cast<const std::int32_t*>(data)[at];
    if (value < 0 || value >= size) {
      note_bad(bad, at, value);
      return -1;
    }
    return place_of(base, at) + value * step;
  }
};

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

__global__ void __launch_bounds__(kItemThreads)
    take_kernel(const Copy __grid_constant__ copy, const NamesHere __grid_constant__ names) {
  const std::int64_t item = item_here();
  if (item >= copy.to.outer.count * copy.rows * copy.width) return;
  const Spot at(item, copy.rows, copy.width);
  const std::int64_t row = names.row(at.row), to = place_in(copy.to, at.outer, at.row, at.inner);
  if (row < 0)
    clear_word(copy.to.data, to, copy.bytes);
  else
    copy_word(copy.from.data, place_in(copy.from, at.outer, row, at.inner), copy.to.data, to,
              copy.bytes);
}

// ---- several rows with one index ----------------------------------------------------------------

/** Writes the entries to sort. The key is the row, or `rows`, which sorts last, for skipped
 *  ones. */
__global__ void __launch_bounds__(kItemThreads)
    name_kernel(const NamesHere __grid_constant__ names, std::int64_t count, std::int64_t rows,
                std::int64_t skipped, WideEntry* entries) {
  const std::int64_t i = item_here();
  if (i >= count) return;
  const std::int64_t row = names.row(i);
  const bool counts = row >= 0 && row != skipped;
  entries[i] = {static_cast<std::uint64_t>(counts ? row : rows), static_cast<std::uint64_t>(i)};
}

EntryLines<WideEntry> sorted_names(const Names& names, std::int64_t rows, std::int64_t skipped) {
  const Device device = names.memory.device();
  EntryLines<WideEntry> entries(1, names.count(), device);
  launch_over(names.count(), device, &name_kernel, NamesHere(names), names.count(), rows, skipped,
              entries.data());
  sort_lines(entries, std::bit_width(static_cast<std::uint64_t>(rows)));
  return entries;
}

/** Sorted entries as a kernel argument. */
struct Groups {
  const WideEntry* entries;
  std::int64_t count, rows;

  __device__ bool named(std::int64_t i) const {
    return entries[i].key < static_cast<std::uint64_t>(rows);
  }
  __device__ bool first(std::int64_t i) const {
    return i == 0 || entries[i - 1].key != entries[i].key;
  }
  __device__ bool last(std::int64_t i) const {
    return i + 1 == count || entries[i + 1].key != entries[i].key;
  }
  __device__ std::int64_t name(std::int64_t i) const {
    return static_cast<std::int64_t>(entries[i].key);
  }
  __device__ std::int64_t place(std::int64_t i) const { return entries[i].index(); }
};

__global__ void __launch_bounds__(kItemThreads)
    put_kernel(const Copy __grid_constant__ copy, const Groups groups) {
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
  Groups groups;
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
  Groups groups;
  Axes from_rows, to_rows;  // offsets of rows, in elements
  const void* from;
  void* to;
  int packs;       // per row
  int length;      // entries of a chunk
  float* partial;  // two rows per chunk: of its first segment if that began before the
                   // chunk, and of its last if that goes on after it
  float alpha;
  bool overwrite, average;

  __device__ std::int64_t end_of(std::int64_t begin) const {
    return begin + length < groups.count ? begin + length : groups.count;
  }
  /** Returns whether the entry before i, or the one after it, has the same index. */
  __device__ bool goes_back(std::int64_t i) const { return !groups.first(i); }
  __device__ bool goes_on(std::int64_t i) const { return !groups.last(i); }
};

/** The calling thread's chunk and pack; a block has packs of several chunks. */
struct ChunkPack {
  std::int64_t chunk, begin;
  int pack;
  bool exists;

  __device__ explicit ChunkPack(const SegmentSums& s) {
    const Split at(item_here(), s.packs);
    chunk = at.quotient;
    pack = static_cast<int>(at.rest);
    begin = chunk * s.length;
    exists = begin < s.groups.count;
  }
};

/** Writes the sum of a segment, of which `last` is the last entry, to its row. */
template <class T>
__device__ void put_segment(const SegmentSums& s, int pack, std::int64_t last, float* sum) {
  constexpr int kWidth = kPerPack<T>;
  const std::int64_t row = s.groups.name(last);
  T* const to = static_cast<T*>(s.to) + place_of(s.to_rows, row) + pack * kWidth;
  if (s.average) {
    std::int64_t low = -1, high = last;  // the first entry is in (low, high]
    while (high - low > 1) {
      const std::int64_t middle = low + (high - low) / 2;
      (s.groups.name(middle) == row ? high : low) = middle;
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

template <class T>
__global__ void __launch_bounds__(kItemThreads)
    segment_sums_kernel(const SegmentSums __grid_constant__ s) {
  constexpr int kWidth = kPerPack<T>, kAhead = 4;  // rows that are loaded together
  const ChunkPack at(s);
  if (!at.exists) return;
  const std::int64_t end = s.end_of(at.begin);
  float* const partial = s.partial + (2 * at.chunk * s.packs + at.pack) * kWidth;
  float sum[kWidth] = {};
  bool began_before = s.goes_back(at.begin);
#pragma unroll 1
  for (std::int64_t i = at.begin; i < end; i += kAhead) {
    PackWords rows[kAhead];
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (i + j < end && s.groups.named(i + j))
        rows[j] = reinterpret_cast<const PackWords*>(
            static_cast<const T*>(s.from) + place_of(s.from_rows, s.groups.place(i + j)))[at.pack];
#pragma unroll
    for (int j = 0; j < kAhead; ++j) {
      if (i + j >= end || !s.groups.named(i + j)) continue;
      float values[kWidth];
      widen<T>(rows[j], values);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum[k] += s.alpha * values[k];
      const bool goes_on = s.goes_on(i + j);
      if (goes_on && i + j + 1 < end) continue;
      if (began_before)
        store_values<kWidth>(partial, sum);
      else if (goes_on)
        store_values<kWidth>(partial + s.packs * kWidth, sum);
      else
        put_segment<T>(s, at.pack, i + j, sum);
      began_before = false;
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sum[k] = 0;
    }
  }
}

/** Returns the last entry with the index of entry i. */
__device__ inline std::int64_t end_of_segment(const Groups& groups, std::int64_t i) {
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
    join_segments_kernel(const SegmentSums __grid_constant__ s) {
  constexpr int kWidth = kPerPack<T>;
  const ChunkPack at(s);
  if (!at.exists) return;
  std::int64_t last = s.end_of(at.begin) - 1;
  if (!s.groups.named(last) || !s.goes_on(last)) return;
  const std::int64_t row = s.groups.name(last);
  if (s.groups.name(at.begin) == row && s.goes_back(at.begin)) return;  // began before this chunk
  last = end_of_segment(s.groups, last);
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
  put_segment<T>(s, at.pack, last, sum);
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

void add_pack_rows(const Rows& from, const Groups& groups, const Rows& to, const AddRows& how,
                   Device device) {
  visit_packed(to.dtype, [&]<class T>(std::type_identity<T>) {
    const std::int64_t packs = to.inner.count / kPerPack<T>;
    SegmentSums sums{.groups = groups,
                     .from_rows = from.rows,
                     .to_rows = to.rows,
                     .from = from.data,
                     .to = to.data,
                     .packs = static_cast<int>(packs),
                     .length = entries_of_chunk(groups.count, packs),
                     .partial = nullptr,
                     .alpha = static_cast<float>(how.alpha),
                     .overwrite = how.overwrite,
                     .average = how.average};
    const std::int64_t chunks = blocks_for(groups.count, sums.length);
    const Tensor room =
        workspace(2 * chunks * to.inner.count * std::int64_t{sizeof(float)}, device);
    sums.partial = static_cast<float*>(room.raw_data());
    launch_over(chunks * packs, device, &segment_sums_kernel<T>, sums);
    if (chunks > 1) launch_over(chunks * packs, device, &join_segments_kernel<T>, sums);
  });
}

}  // namespace

void take_rows(const Rows& from, const Names& names, const Rows& to) {
  const Copy copy = copy_of(from, to, names.count());
  launch_over(copy.words(), names.memory.device(), &take_kernel, copy, NamesHere(names));
}

void put_rows(const Rows& from, const Names& names, std::int64_t rows, const Rows& to) {
  const Copy copy = copy_of(from, to, names.count());
  if (copy.words() == 0) return;
  const EntryLines<WideEntry> entries = sorted_names(names, rows, -1);
  launch_over(copy.words(), names.memory.device(), &put_kernel, copy,
              Groups{entries.data(), names.count(), rows});
}

void add_rows(const Rows& from, const Names& names, std::int64_t rows, const Rows& to,
              DType compute, const AddRows& how) {
  const std::int64_t columns = to.outer.count * to.inner.count;
  if (names.count() == 0 || columns == 0) return;
  const EntryLines<WideEntry> entries = sorted_names(names, rows, how.skipped);
  const Groups groups{entries.data(), names.count(), rows};
  if (have_pack_rows(from, to, compute))
    return add_pack_rows(from, groups, to, how, names.memory.device());
  visit_compute(compute, [&]<class C>(std::type_identity<C>) {
    scan(Lines{.count = columns, .length = names.count(), .inner = to.inner.count}, false,
         RowSums<C>{groups, from, to, static_cast<C>(how.alpha), how.overwrite, how.average},
         names.memory.device());
  });
}

}  // namespace mezzo::gpu
