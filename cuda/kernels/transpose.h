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

inline constexpr int kTransposeThreads = 256;

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

/** Copies elements as they are. */
template <class Word> struct WordCopy {
  using Value = Word;
  const Word* from;
  Word* to;
  __device__ Word load(std::int64_t at) const { return from[at]; }
  __device__ void store(std::int64_t at, Word value) const { to[at] = value; }
};

/** Converts elements through the compute type C. */
template <class C> struct ConvertingCopy {
  using Value = C;
  const void* from;
  void* to;
  DType from_dtype, to_dtype;
  __device__ C load(std::int64_t at) const { return load_element<C>(from, from_dtype, at); }
  __device__ void store(std::int64_t at, C value) const {
    store_element<C>(to, to_dtype, at, value);
  }
};

template <class Copy>
__global__ void __launch_bounds__(kTransposeThreads)
    transpose_kernel(const __grid_constant__ TransposePlan plan, const Copy copy) {
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
  const std::int64_t from =
                         place_of_other(plan.from_strides) + first_from + first_to * plan.to.stride,
                     to =
                         place_of_other(plan.to_strides) + first_to + first_from * plan.from.stride;
  const int elements = 1 << (plan.from.bits + plan.to.bits), pitch = (1 << plan.from.bits) + 1;
  const auto is_inside = [&](int i, int along_from, int along_to) {
    return i < elements && first_from + along_from < plan.from.size &&
           first_to + along_to < plan.to.size;
  };
  Value values[kOwn];
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kTransposeThreads;
    const int along_from = i & ((1 << plan.from.bits) - 1), along_to = i >> plan.from.bits;
    if (is_inside(i, along_from, along_to))
      values[k] = copy.load(from + along_from + along_to * plan.to.stride);
  }
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kTransposeThreads;
    if (i < elements)
      tile[(i >> plan.from.bits) * pitch + (i & ((1 << plan.from.bits) - 1))] = values[k];
  }
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kOwn; ++k) {
    const int i = static_cast<int>(threadIdx.x) + k * kTransposeThreads;
    const int along_to = i & ((1 << plan.to.bits) - 1), along_from = i >> plan.to.bits;
    if (is_inside(i, along_from, along_to))
      copy.store(to + along_to + along_from * plan.from.stride,
                 tile[along_to * pitch + along_from]);
  }
}

template <class Copy> bool launch_tiles(const Map& map, const Copy& copy, runtime::Stream stream) {
  const auto plan = transpose_plan(map, kTransposeBits<typename Copy::Value>);
  if (!plan) return false;
  launch(&transpose_kernel<Copy>, {.blocks = plan->blocks(), .threads = kTransposeThreads}, stream,
         *plan, copy);
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
__global__ void __launch_bounds__(kMapThreads) copy_kernel(const __grid_constant__ Map map) {
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
