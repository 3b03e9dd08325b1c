// Copies between tensors that are contiguous along different dimensions, as of a transpose or
// between row-major and channels-last images: tiles pass through shared memory, so that
// neighbouring threads both load and store neighbouring elements.
#pragma once

#include <algorithm>
#include <bit>
#include <optional>

#include "../../tensor/cpu/word.h"
#include "items.h"
#include "map.h"

namespace mezzo::gpu {

inline constexpr int kTransposeBitsOfThreads = 8, kTransposeThreads = 1 << kTransposeBitsOfThreads;

/** Binary logarithm of a tile's elements: 64 x 64 small ones, so that a row has 64 bytes or more,
 *  32 x 32 larger ones. */
template <class T> inline constexpr int kTransposeBits = sizeof(T) <= 2 ? 12 : 10;

/** One of the two dimensions of a tile. */
struct TileSide {
  std::int64_t size = 0, stride = 0;  // of the dimension; its stride in the other tensor
  int bits = 0;                       // binary logarithm of the tile's elements along it

  MZ_HD std::int64_t tiles() const { return (size + (std::int64_t{1} << bits) - 1) >> bits; }
};

/** A tiled copy. The operand is contiguous along `from`, the result along `to`. */
struct TransposePlan {
  TileSide from, to;
  int rank = 0;            // of the other dimensions
  std::int64_t count = 1;  // elements of the other dimensions
  std::int64_t sizes[Shape::kMaxRank] = {}, from_strides[Shape::kMaxRank] = {},
               to_strides[Shape::kMaxRank] = {};

  std::int64_t blocks() const { return count * from.tiles() * to.tiles(); }
};

/** Returns the plan for tiles of 2^bits elements, or nothing where the copy is no transpose or too
 *  small. */
inline std::optional<TransposePlan> transpose_plan(const Map& map, int bits) {
  const MapOperand &x = map.in[0], &y = map.out[0];
  if (x.layout != MapOperand::Layout::tensor) return std::nullopt;
  const auto contiguous_in = [&](const MapOperand& operand) {
    return static_cast<int>(std::find(operand.strides, operand.strides + map.rank, 1) -
                            operand.strides);
  };
  const int from = contiguous_in(x), to = contiguous_in(y);
  if (from == to || from == map.rank || to == map.rank) return std::nullopt;
  TransposePlan plan{.from = {map.sizes[from], y.strides[from]},
                     .to = {map.sizes[to], x.strides[to]}};
  constexpr std::int64_t kFewest = 256;  // elements of the two dimensions
  if (plan.from.size * plan.to.size < kFewest || plan.to.stride == 0) return std::nullopt;
  const auto most = [](const TileSide& side, int limit) {
    return std::min(limit,
                    static_cast<int>(std::bit_width(static_cast<std::uint64_t>(side.size - 1))));
  };
  plan.to.bits = most(plan.to, bits - most(plan.from, bits / 2));
  plan.from.bits = most(plan.from, bits - plan.to.bits);
  for (int i = 0; i < map.rank; ++i) {
    if (i == from || i == to) continue;
    plan.sizes[plan.rank] = map.sizes[i];
    plan.from_strides[plan.rank] = x.strides[i];
    plan.to_strides[plan.rank++] = y.strides[i];
    plan.count *= map.sizes[i];
  }
  if (plan.blocks() > kMostBlocks) return std::nullopt;
  return plan;
}

/** Places in an operand and in a result, between which elements are copied as they are. */
template <class Word> struct WordCopy {
  using Value = Word;
  const Word* from;
  Word* to;
  __device__ void move_from(std::int64_t elements) { from += elements; }
  __device__ void move_to(std::int64_t elements) { to += elements; }
  __device__ Word load() const { return *from; }
  __device__ void store(Word value) const { *to = value; }
};

/** The same with a conversion through the compute type C. */
template <class C> struct ConvertingCopy {
  using Value = C;
  const void* from;
  void* to;
  DType from_dtype, to_dtype;
  std::int64_t from_at = 0, to_at = 0;
  __device__ void move_from(std::int64_t elements) { from_at += elements; }
  __device__ void move_to(std::int64_t elements) { to_at += elements; }
  __device__ C load() const { return load_element<C>(from, from_dtype, from_at); }
  __device__ void store(C value) const { store_element<C>(to, to_dtype, to_at, value); }
};

/** A thread's elements k = 0, 1, ... of a tile whose lines have 2^bits elements: their positions
 *  along and across the lines. Consecutive threads have consecutive elements of a line. kNarrow: a
 *  line has no more elements than there are threads, so that a thread has one position along it. */
template <bool kNarrow> struct TileWalk {
  int bits;

  __device__ int lines_of(int elements) const { return elements >> bits; }
  __device__ int own(int k) const {
    return static_cast<int>(threadIdx.x) + (kNarrow ? 0 : k * kTransposeThreads);
  }
  __device__ int along(int k) const { return own(k) & ((1 << bits) - 1); }
  __device__ int across(int k) const {
    return lines_of(own(k)) + (kNarrow ? k * lines_of(kTransposeThreads) : 0);
  }

  /** Calls f(k) for the thread's elements with positions below the limits; move(n) moves by n
   *  places before. Lines are `stride` places apart. */
  template <int kOwn, class Move, class F>
  __device__ void for_each(int limit_along, int limit_across, std::int64_t stride, Move&& move,
                           F&& f) const {
    if constexpr (kNarrow) {
      const int step = lines_of(kTransposeThreads);
      const std::int64_t places = step * stride;
      const int count =
          along(0) < limit_along
              ? ((limit_across - 1 - across(0)) >> (kTransposeBitsOfThreads - bits)) + 1
              : 0;
      move(along(0) + across(0) * stride);
#pragma unroll
      for (int k = 0; k < kOwn; ++k) {
        if (k < count) f(k);
        move(places);
      }
    } else {
      std::int64_t at = 0;
#pragma unroll
      for (int k = 0; k < kOwn; ++k) {
        const std::int64_t next = along(k) + across(k) * stride;
        move(next - at);
        at = next;
        if (along(k) < limit_along && across(k) < limit_across) f(k);
      }
    }
  }
};

template <class Copy, bool kNarrow>
__global__ void __launch_bounds__(kTransposeThreads)
    transpose_kernel(const TransposePlan __grid_constant__ plan, Copy copy) {
  using Value = typename Copy::Value;
  constexpr int kElements = 1 << kTransposeBits<Value>, kOwn = kElements / kTransposeThreads;
  // The padding of rows avoids bank conflicts; a row has two elements or more.
  MZ_SHARED(Value, tile, kElements / 2 * 3);
  const Split of_to(blockIdx.x, plan.to.tiles()), of_from(of_to.quotient, plan.from.tiles());
  const std::int64_t first_from = of_from.rest << plan.from.bits,
                     first_to = of_to.rest << plan.to.bits, other = of_from.quotient;
  const auto place_of_other = [&](const std::int64_t* strides) {
    return plan.rank == 0 ? 0 : place_among(plan.sizes, strides, plan.rank, plan.count, other);
  };
  // the tile's elements within the tensors, along both dimensions
  const auto extent = [](const TileSide& side, std::int64_t first) {
    const std::int64_t left = side.size - first, most = std::int64_t{1} << side.bits;
    return static_cast<int>(left < most ? left : most);
  };
  const int from_extent = extent(plan.from, first_from), to_extent = extent(plan.to, first_to);
  const int pitch = (1 << plan.from.bits) + 1;
  const TileWalk<kNarrow> source{plan.from.bits}, result{plan.to.bits};
  copy.move_from(place_of_other(plan.from_strides) + first_from + first_to * plan.to.stride);
  Value values[kOwn] = {};
  source.template for_each<kOwn>(
      from_extent, to_extent, plan.to.stride, [&](std::int64_t n) { copy.move_from(n); },
      [&](int k) { values[k] = copy.load(); });
#pragma unroll
  for (int k = 0; k < kOwn; ++k) tile[source.across(k) * pitch + source.along(k)] = values[k];
  __syncthreads();
  copy.move_to(place_of_other(plan.to_strides) + first_to + first_from * plan.from.stride);
  result.template for_each<kOwn>(
      to_extent, from_extent, plan.from.stride, [&](std::int64_t n) { copy.move_to(n); },
      [&](int k) { copy.store(tile[result.along(k) * pitch + result.across(k)]); });
}

template <class Copy> bool launch_tiles(const Map& map, const Copy& copy, runtime::Stream stream) {
  const auto plan = transpose_plan(map, kTransposeBits<typename Copy::Value>);
  if (!plan) return false;
  const bool is_narrow = 1 << std::max(plan->from.bits, plan->to.bits) <= kTransposeThreads;
  launch(is_narrow ? &transpose_kernel<Copy, true> : &transpose_kernel<Copy, false>,
         {.blocks = plan->blocks(), .threads = kTransposeThreads}, stream, *plan, copy);
  return true;
}

/** Launches a copy by tiles, with conversions through C. Returns false where the copy is no
 *  transpose. */
template <class C> bool launch_transpose(const Map& map, runtime::Stream stream) {
  const MapOperand &x = map.in[0], &y = map.out[0];
  // A bool may be any byte, which a copy makes 0 or 1.
  if (x.dtype != y.dtype || x.dtype == DType::boolean)
    return launch_tiles(map, ConvertingCopy<C>{x.data, y.data, x.dtype, y.dtype}, stream);
  bool is_done = false;
  cpu_kernels::visit_word(x.dtype, [&]<class Word>(std::type_identity<Word>) {
    is_done = launch_tiles(
        map, WordCopy<Word>{static_cast<const Word*>(x.data), static_cast<Word*>(y.data)}, stream);
  });
  return is_done;
}

/** Copies through the source's compute type, so that the store rounds once. */
template <class C>
__global__ void __launch_bounds__(kMapThreads) copy_kernel(const Map __grid_constant__ map) {
  for_each_run(map, [&](std::int64_t at, int n) {
    C values[kRun];
    load_run<C>(map, map.in[0], at, n, values);
    store_run<C>(map, map.out[0], at, n, values);
  });
}

/** The launch function of copies, for map_elements. */
template <class C> void launch_copy(const Map& map, const void*, runtime::Stream stream) {
  if (!launch_transpose<C>(map, stream)) launch(&copy_kernel<C>, map_grid(map), stream, map);
}

}  // namespace mezzo::gpu
