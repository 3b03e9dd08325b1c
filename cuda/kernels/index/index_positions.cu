// The CUDA kernels that compute positions, of tuples of indices and of non-zero elements, and that
// select elements by a mask.
#include "../../../tensor/core/dispatch.h"
#include "../../../tensor/cpu/word.h"
#include "../../attach.h"
#include "../../runtime/index_errors.h"
#include "../axes.h"
#include "../host_map.h"
#include "../host_rows.h"
#include "../items.h"
#include "../last_block.h"
#include "../tickets.h"
#include "../typed.h"

namespace mezzo::gpu {

namespace {

/** One index tensor of a tuple, broadcast to the common shape. */
struct TupleIndex {
  Array values;  // row-major, so that an element's offset is its number
  Axes axes;
  std::int64_t size;  // size of the indexed dimension
  IndexErrorWord* bad;

  /** Returns the non-negative index of element i; 0 for one that is out of range. */
  __device__ std::int64_t wrapped(std::int64_t i) const {
    const std::int64_t at = place_of(axes, i), value = values.load<std::int64_t>(at);
    if (value < -size || value >= size) {
      note_bad(bad, at, value);
      return 0;
    }
    return value < 0 ? value + size : value;
  }
};

struct Tuple {
  int count = 0;
  TupleIndex indices[Shape::kMaxRank];
};

__global__ void __launch_bounds__(kItemThreads)
    positions_kernel(const Tuple __grid_constant__ tuple, std::int64_t count,
                     std::int64_t* positions) {
  const std::int64_t i = item_here();
  if (i >= count) return;
  std::int64_t position = 0;
  for (int k = 0; k < tuple.count; ++k)
    position = position * tuple.indices[k].size + tuple.indices[k].wrapped(i);
  positions[i] = position;
}

/** Returns the axes of a row-major tensor broadcast to `shape`. */
Axes broadcast_axes(const Shape& from, const Shape& shape) {
  const Strides strides = contiguous_strides(from);
  Axes axes;
  for (int d = 0; d < shape.rank(); ++d) {
    const int own = d - (shape.rank() - from.rank());
    axes.push(shape[d], own < 0 || from[own] == 1 ? 0 : strides[own]);
  }
  return axes;
}

void index_positions(Inputs in, Outputs out, const op::IndexPositions::Attrs& attrs) {
  const Tensor& x = in[0];
  const TensorMeta into{x.shape(), x.dtype(), x.device()};
  std::vector<Tensor> held;
  Tuple tuple;
  std::size_t operand = 0;
  for (int d = 0; d < x.dim(); ++d) {
    if (!(attrs.dims >> d & 1)) continue;
    const Tensor index = row_major(in[++operand]);
    held.push_back(index);
    const std::int64_t size = x.shape()[d];
    tuple.indices[tuple.count++] = {
        Array(index), broadcast_axes(index.shape(), out[0].shape()), size,
        watch(x.device(), op::IndexRange{attrs.op, index.shape(), into, d, -size, size})};
  }
  launch_over(out[0].numel(), x.device(), &positions_kernel, tuple, out[0].numel(),
              out[0].data<std::int64_t>());
}

// ---- elements that are not 0 --------------------------------------------------------------------
// One launch marks them, a bit each, and counts those of tiles; its last block adds up the counts,
// and the host reads their sum, for the size of the result. A second launch writes the result.

constexpr int kTile = 8192;  // elements
constexpr int kTileWords = kTile / 32, kMarkThreads = 256, kMarkWarps = kMarkThreads / kWarpSize;
constexpr int kWarpWords = kTileWords / kMarkWarps;
static_assert(kWarpWords == kWarpSize);

/** Which of `length` elements are not 0, in device memory. */
struct Marks {
  std::uint32_t* words;  // kTileWords for each tile
  std::int64_t* before;  // for each tile, the number of such elements ahead of it
  std::int64_t* total;
  std::int64_t length;
};

/** Returns a bit for each Word of a pack: 1 unless it is 0. `kept`: the bits of a pack's words that
 *  count; of words of 8 bytes, the upper half. */
template <class Word> __device__ std::uint32_t nonzero_bits(const PackWords& pack, unsigned kept) {
  std::uint32_t bits = 0;
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const std::uint32_t word = pack.item[k] & kept;
    if constexpr (sizeof(Word) == 1) {
      const std::uint32_t high = (((word & 0x7F7F7F7F) + 0x7F7F7F7F) | word) & 0x80808080;
      bits |= (high >> 7) * 0x10204080u >> 28 << 4 * k;
    } else if constexpr (sizeof(Word) == 2) {
      bits |= ((word & 0xFFFF) != 0 ? 1u : 0u) << 2 * k | (word >> 16 != 0 ? 2u : 0u) << 2 * k;
    } else if constexpr (sizeof(Word) == 4) {
      bits |= (word != 0 ? 1u : 0u) << k;
    } else if (k % 2 != 0) {
      bits |= ((word | pack.item[k - 1]) != 0 ? 1u : 0u) << k / 2;
    }
  }
  return bits;
}

/** Does the same for elements from `first` on, fewer than a pack. */
template <class Word>
__device__ __noinline__ std::uint32_t last_bits(const Word* x, int first, int length,
                                                unsigned kept) {
  std::uint32_t bits = 0;
  for (int i = first; i < length; ++i) {
    PackWords pack{};
    if constexpr (sizeof(Word) == 8)
      pack.item[0] = static_cast<std::uint32_t>(x[i]),
      pack.item[1] = static_cast<std::uint32_t>(x[i] >> 32);
    else
      pack.item[0] = x[i];
    bits |= nonzero_bits<Word>(pack, kept) << (i - first);
  }
  return bits;
}

/** Returns the sum over the block's earlier threads, and sets `all` to that of the block. All
 *  threads of the block must call it; `room` is shared, with kMarkWarps places. */
__device__ int sum_before(int value, int* room, int& all) {
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize,
            lane = static_cast<int>(threadIdx.x) % kWarpSize;
  int upto = value;
#pragma unroll
  for (int step = 1; step < kWarpSize; step *= 2) {
    const int lower = __shfl_up_sync(kAllLanes, upto, static_cast<unsigned>(step));
    if (lane >= step) upto += lower;
  }
  __syncthreads();  // earlier sums in the room may still be read
  if (lane == kWarpSize - 1) room[warp] = upto;
  __syncthreads();
  int before = upto - value;
  all = 0;
#pragma unroll
  for (int w = 0; w < kMarkWarps; ++w) {
    if (w < warp) before += room[w];
    all += room[w];
  }
  return before;
}

/** Replaces the counts of tiles by those ahead of each, by one block. Not inlined, for the
 *  registers of the marks. */
__device__ __noinline__ void add_up(const Marks& marks, std::int64_t tiles) {
  MZ_SHARED(int, room, kMarkWarps);
  constexpr int kEach = 16;
  std::int64_t done = 0;
  for (std::int64_t start = 0; start < tiles; start += kEach * kMarkThreads) {
    const std::int64_t first = start + threadIdx.x * kEach;
    int counts[kEach], sum = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      counts[k] = first + k < tiles ? static_cast<int>(marks.before[first + k]) : 0;
      sum += counts[k];
    }
    int all;
    std::int64_t before = done + sum_before(sum, room, all);
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (first + k < tiles) marks.before[first + k] = before;
      before += counts[k];
    }
    done += all;
  }
  if (threadIdx.x == 0) *marks.total = done;
}

template <class Word>
__global__ void __launch_bounds__(kMarkThreads)
    mark_kernel(const Word* x, unsigned kept, const Marks __grid_constant__ marks,
                unsigned* ticket) {
  constexpr int kPack = 16 / static_cast<int>(sizeof(Word));  // elements
  constexpr int kPacks = kTile / kPack / kMarkThreads;        // of a thread
  constexpr int kLanes = 32 / kPack;                          // whose packs are one word
  MZ_SHARED(int, room, kMarkWarps);
  const std::int64_t tile = blockIdx.x;
  const int thread = static_cast<int>(threadIdx.x);
  const auto length =
      static_cast<int>(marks.length - tile * kTile < kTile ? marks.length - tile * kTile : kTile);
  x += tile * kTile;
  PackWords packs[kPacks];
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int pack = j * kMarkThreads + thread;
    packs[j] = {};
    if ((pack + 1) * kPack <= length) packs[j] = reinterpret_cast<const PackWords*>(x)[pack];
  }
  std::uint32_t* const words = marks.words + tile * kTileWords;
  int count = 0;
#pragma unroll
  for (int j = 0; j < kPacks; ++j) {
    const int pack = j * kMarkThreads + thread;
    std::uint32_t word = nonzero_bits<Word>(packs[j], kept);
    if ((pack + 1) * kPack > length) word = last_bits(x, pack * kPack, length, kept);
    word <<= thread % kLanes * kPack;
#pragma unroll
    for (int step = 1; step < kLanes; step *= 2) word |= __shfl_xor_sync(kAllLanes, word, step);
    if (thread % kLanes == 0) {
      words[pack / kLanes] = word;
      count += __popc(word);
    }
  }
  int all;
  sum_before(count, room, all);
  if (thread == 0) marks.before[tile] = all;
  if (is_last_block(ticket, gridDim.x, room)) add_up(marks, gridDim.x);
}

/** The words of a tile that a warp works on, one in each lane. All threads of the block must
 *  construct it. */
struct WarpMarks {
  unsigned lane = threadIdx.x % kWarpSize;
  std::uint32_t word;
  int before;            // marked elements of the tile ahead of the word's
  std::int64_t element;  // that of the lane in the first word

  __device__ WarpMarks(const Marks& marks, int* room)
      : word(marks.words[std::int64_t{blockIdx.x} * kTileWords + threadIdx.x]),
        element(std::int64_t{blockIdx.x} * kTile + (threadIdx.x - lane) * 32 + lane) {
    int all;
    before = sum_before(__popc(word), room, all);
  }

  /** Returns whether element + 32 k is marked. */
  __device__ bool has(int k) const { return (__shfl_sync(kAllLanes, word, k) & 1u << lane) != 0; }
  /** Returns the number of the tile's marked elements ahead of element + 32 k. */
  __device__ int number(int k) const {
    const std::uint32_t lower = __shfl_sync(kAllLanes, word, k) & ((1u << lane) - 1);
    return __shfl_sync(kAllLanes, before, k) + __popc(lower);
  }
};

/** Stores the marked elements of x in order. Their offsets are their numbers, if `kLine`, or those
 *  of `axes`. */
template <class Word, bool kLine>
__global__ void __launch_bounds__(kMarkThreads)
    values_kernel(const Marks __grid_constant__ marks, const Word* x,
                  const Axes __grid_constant__ axes, Word* y) {
  MZ_SHARED(int, room, kMarkWarps);
  const WarpMarks own(marks, room);
  Word values[kWarpWords];
  const Word* const first = x + own.element;
#pragma unroll
  for (int k = 0; k < kWarpWords; ++k)
    if (own.has(k)) values[k] = kLine ? first[k * 32] : x[place_of(axes, own.element + k * 32)];
  y += marks.before[blockIdx.x];
#pragma unroll
  for (int k = 0; k < kWarpWords; ++k) {
    const int number = own.number(k);
    if (own.has(k)) y[number] = values[k];
  }
}

/** The sizes of a tensor, and dividers by them for fewer than 2^31 elements. */
struct Sizes {
  int rank = 0;
  bool is_small;
  std::int64_t sizes[Shape::kMaxRank] = {};
  Divider dividers[Shape::kMaxRank];

  explicit Sizes(const Tensor& x) : is_small(x.numel() <= 0x7FFFFFFF) {
    for (const std::int64_t size : x.shape()) {
      if (is_small && size > 0) dividers[rank] = Divider(static_cast<std::uint32_t>(size));
      sizes[rank++] = size;
    }
  }
};

/** Stores the coordinates of each marked element in the row of its number. */
__global__ void __launch_bounds__(kMarkThreads)
    coordinates_kernel(const Marks __grid_constant__ marks, const Sizes __grid_constant__ of,
                       std::int64_t* rows) {
  MZ_SHARED(int, room, kMarkWarps);
  const WarpMarks own(marks, room);
  rows += marks.before[blockIdx.x] * of.rank;
  if (of.rank == 1) {
#pragma unroll
    for (int k = 0; k < kWarpWords; ++k) {
      const int number = own.number(k);
      if (own.has(k)) rows[number] = own.element + k * 32;
    }
    return;
  }
#pragma unroll 1
  for (int k = 0; k < kWarpWords; ++k) {
    std::int64_t* const row = rows + std::int64_t{own.number(k)} * of.rank;
    if (!own.has(k)) continue;
    std::int64_t i = own.element + k * 32;
    for (int d = of.rank - 1; d > 0; --d) {
      const std::int64_t rest =
          of.is_small ? of.dividers[d].quotient(static_cast<std::uint32_t>(i)) : i / of.sizes[d];
      row[d] = i - rest * of.sizes[d];
      i = rest;
    }
    row[0] = i;
  }
}

/** Marks of the elements of a tensor that are not 0, and how many they are. */
struct Marked {
  Tensor memory, total;
  Marks marks;
  std::int64_t tiles, count = 0;

  /** Synchronises with the device to read the count. */
  explicit Marked(const Tensor& x) : tiles(blocks_for(x.numel(), kTile)) {
    if (tiles == 0) return;
    const Device device = x.device();
    const Tensor from = aligned(row_major(x));
    memory = workspace(tiles * (kTileWords * 4 + 8), device);
    total = empty_tensor({}, DType::i64, device);
    auto* const before = static_cast<std::int64_t*>(memory.raw_data());
    marks = {reinterpret_cast<std::uint32_t*>(before + tiles), before, total.data<std::int64_t>(),
             x.numel()};
    cpu_kernels::visit_word(x.dtype(), [&]<class Word>(std::type_identity<Word>) {
      // -0 is 0
      const unsigned kept = !is_floating(x.dtype()) ? ~0u
                            : sizeof(Word) == 2     ? 0x7FFF7FFF
                                                    : ~0u >> 1;
      launch(&mark_kernel<Word>, grid(), current_stream(device),
             static_cast<const Word*>(from.raw_data()), kept, marks, tickets(device));
    });
    count = total.item<std::int64_t>();
  }
  Grid grid() const { return {.blocks = tiles, .threads = kMarkThreads}; }
};

void nonzero(Inputs in, Outputs out, const NoAttrs&) {
  const Device device = in[0].device();
  const Marked marked(in[0]);
  out[0] = empty_tensor({marked.count, in[0].dim()}, DType::i64, device);
  if (out[0].numel() > 0)
    launch(&coordinates_kernel, marked.grid(), current_stream(device), marked.marks, Sizes(in[0]),
           out[0].data<std::int64_t>());
}

void masked_values(Inputs in, Outputs out, const NoAttrs&) {
  const Tensor& x = in[0];
  const Marked marked(in[1]);
  out[0] = empty_tensor({marked.count}, x.dtype(), x.device());
  if (marked.count == 0) return;
  Axes axes;
  for (int d = 0; d < x.dim(); ++d) axes.push(x.shape()[d], x.strides()[d]);
  cpu_kernels::visit_word(x.dtype(), [&]<class Word>(std::type_identity<Word>) {
    launch(x.is_contiguous() ? &values_kernel<Word, true> : &values_kernel<Word, false>,
           marked.grid(), current_stream(x.device()), marked.marks,
           static_cast<const Word*>(x.raw_data()), axes, static_cast<Word*>(out[0].raw_data()));
  });
}

}  // namespace

void attach_index_positions() {
  attach<op::IndexPositions, index_positions>();
  attach<op::MaskedValues, masked_values>();
  attach<op::Nonzero, nonzero>();
}

}  // namespace mezzo::gpu
