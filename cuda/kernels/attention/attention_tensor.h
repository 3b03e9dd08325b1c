// Shared parts of the attention kernels on Tensor Cores: loads and stores of rows through shared
// memory, and the two products of a tile.
//
// A tile consists of patches of 16 x 16. Operands are copied to shared memory unchanged, 16-bit,
// padded with zeros to whole patches. Their products are exact in f32, as on the CPU. Probabilities
// and the gradients of the scores are f32, but the next product takes 16-bit factors. Each is
// therefore split into the sum of two 16-bit numbers, which hold 22 bits together (bf16: 16), so
// that results are rounded only once, at the end.
//
// f16 covers 6e-8 to 65504 only. Probabilities are multiplied by 2^12, so that only values below
// 2^-37 underflow. The gradients of a tile's scores are scaled by a unit that follows the largest
// of them (see attention_tensor_backward.cu).
#pragma once

#include "../tensor_core.h"
#include "attention.h"

namespace mezzo::gpu {

inline constexpr int kTensorWarps = 4, kTensorThreads = kTensorWarps * kWarpSize;
/** Longest rows of a tile. */
inline constexpr int kWidestRows = 128;

/** Factor of probabilities in 16 bits. A probability recomputed from a rounded logarithm may exceed
 *  1; f16 allows a factor of up to 15. */
template <class T>
inline constexpr float kProbabilityUnits = std::is_same_v<T, Half> ? 4096.0f : 1.0f;

__device__ constexpr int patches_in(std::int64_t n) {
  return static_cast<int>((n + kPatch - 1) / kPatch);
}

/** Unit of shared memory aligned for rows of patches. shared_pieces returns the number of units for
 *  rows of elements. */
struct alignas(16) SharedPiece {
  unsigned char bytes[16];
};
template <class T> constexpr int shared_pieces(int rows, int pitch) {
  return rows * pitch * static_cast<int>(sizeof(T)) / static_cast<int>(sizeof(SharedPiece));
}

/** 8 adjacent 16-bit elements, which a thread moves at once. */
template <class T> using Eight = Pack<T, 8>;
inline constexpr int kEight = 8;

/** Returns true if rows are contiguous and every eighth element of each is 16-byte aligned, in
 *  16-bit numbers. */
inline bool has_eights(const AttentionOperand& x) {
  std::int64_t steps = x.row;
  for (const std::int64_t step : x.batch) steps |= step;
  return x.column == 1 && steps % kEight == 0 && reinterpret_cast<std::uintptr_t>(x.data) % 16 == 0;
}

/** An operand whose rows are loaded into tiles. */
struct TileOperand {
  AttentionOperand x;
  std::int64_t rows, columns;
  bool in_eights;  // every eighth element of a row is 16-byte aligned
  bool across;     // columns, not rows, are contiguous

  TileOperand(const AttentionOperand& operand, std::int64_t num_rows, std::int64_t num_columns)
      : x(operand),
        rows(num_rows),
        columns(num_columns),
        in_eights(has_eights(operand)),
        across(operand.row < operand.column) {}

  /** Loads elements [column, column + 8) of a row, zeros beyond the operand's end. */
  template <class T>
  __device__ Eight<T> load(std::int64_t offset, std::int64_t row, int column) const {
    Eight<T> eight{};
    if (row >= rows) return eight;
    const T* from = static_cast<const T*>(x.data) + offset + row * x.row + column * x.column;
    if (in_eights && column + kEight <= columns) return *reinterpret_cast<const Eight<T>*>(from);
#pragma unroll
    for (int i = 0; i < kEight; ++i)
      if (column + i < columns) eight.item[i] = from[i * x.column];
    return eight;
  }
  /** Loads rows [first, first + count) into a tile, in whole patches. All threads must call it. */
  template <class T>
  __device__ void load_tile(std::int64_t offset, std::int64_t first, int count, T* tile,
                            int pitch) const {
    const int eights = patches_in(columns) * (kPatch / kEight);
    for (int i = static_cast<int>(threadIdx.x); i < count * eights; i += kTensorThreads) {
      const int row = across ? i % count : i / eights,
                column = (across ? i / count : i % eights) * kEight;
      *reinterpret_cast<Eight<T>*>(tile + row * pitch + column) =
          load<T>(offset, first + row, column);
    }
  }
};

/** Adds the products of the rows of `left` with those of patch i of `right`, over `depth` patches
 *  of terms, to sums[i]. */
template <class T, int kCount>
__device__ inline void add_patch_products(SumPatch (&sums)[kCount], int count, const T* left,
                                          const T* right, int pitch, int depth) {
  for (int t = 0; t < depth; ++t) {
    const LeftWords a = load_left(left + t * kPatch, pitch);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (i < count)
        add_product<T>(sums[i], a, load_transposed(right + i * kPatch * pitch + t * kPatch, pitch));
  }
}

/** A lane's scores in a strip of 16 rows: two rows, whose columns it shares with its four-lane
 *  group. */
template <int kColumns> struct LaneScores {
  static constexpr int kLanes = 4, kInRow = kColumns / kLanes, kCount = 2 * kInRow;
  static_assert(kCount <= 32);  // one bit per score
  int first_row = static_cast<int>(threadIdx.x) % kWarpSize / kLanes;
  int first_column = static_cast<int>(threadIdx.x) % kLanes;

  __device__ int row(int i) const { return first_row + i / kInRow * (kPatch / 2); }
  __device__ int column(int i) const { return first_column + i % kInRow * kLanes; }
};

/** Stores a number as the sum of two 16-bit numbers. A non-finite one is stored in the first
 *  alone. */
template <class T> __device__ inline void store_split(T* high, T* low, float x) {
  *high = narrowed<T>(x);
  const float rest = x - widened(*high);
  *low = narrowed<T>(std::fabs(rest) < std::numeric_limits<float>::infinity() ? rest : 0.0f);
}

/** Adds the product of 16 rows of weights, both parts, over `steps` patches of terms, with patch
 *  first + i * stride of the columns of `x` to sums[i], for patches below `count`. */
template <class T, int kCount>
__device__ inline void add_weighted_patches(SumPatch (&sums)[kCount], int first, int stride,
                                            int count, const T* high, const T* low,
                                            int weights_pitch, int steps, const T* x, int pitch) {
  for (int t = 0; t < steps; ++t) {
    const LeftWords a = load_left(high + t * kPatch, weights_pitch),
                    rest = load_left(low + t * kPatch, weights_pitch);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      if (first + i * stride < count) {
        const RightPatch b =
            load_right(x + t * kPatch * pitch + (first + i * stride) * kPatch, pitch);
        add_product<T>(sums[i], a, b);
        add_product<T>(sums[i], rest, b);
      }
  }
}

/** A result whose rows are stored in patches. */
struct TileResult {
  AttentionOperand x;
  std::int64_t columns;
  bool in_eights;

  TileResult(const AttentionOperand& result, DType dtype, std::int64_t num_columns)
      : x(result), columns(num_columns), in_eights(x.dtype == dtype && has_eights(x)) {}

  /** Stores a patch in shared memory to columns from `column` on of `count` rows, the first of
   * which begins at `begin`. finish(i, number) maps a number of the patch's row i to its result.
   *  All lanes of a warp must call it. */
  template <class T, class Finish>
  __device__ void store_patch(const float* patch, int pitch, std::int64_t begin, std::int64_t count,
                              int column, const Finish& finish) const {
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize, i = lane / 2,
              first = lane % 2 * kEight;
    if (i >= count) return;
    begin += i * x.row;
    const float* from = patch + i * pitch + first;
    if (in_eights && column + first + kEight <= columns) {
      Eight<T> eight;
#pragma unroll
      for (int e = 0; e < kEight; ++e) eight.item[e] = narrowed<T>(finish(i, from[e]));
      *reinterpret_cast<Eight<T>*>(static_cast<T*>(x.data) + begin + column + first) = eight;
      return;
    }
#pragma unroll 1
    for (int e = 0; e < kEight; ++e)
      if (column + first + e < columns)
        store_element<float>(x.data, x.dtype, begin + (column + first + e) * x.column,
                             finish(i, from[e]));
  }
};

/** Calls f(element type, tile width) for rows of up to `longest` elements. */
template <class F> void visit_tensor_tile(DType dtype, std::int64_t longest, F&& f) {
  const auto visit = [&]<class T>(std::type_identity<T> element) {
    if (longest > kWidestRows / 2)
      f(element, std::integral_constant<int, kWidestRows>{});
    else
      f(element, std::integral_constant<int, kWidestRows / 2>{});
  };
  if (dtype == DType::f16)
    visit(std::type_identity<Half>{});
  else
    visit(std::type_identity<BFloat16>{});
}

}  // namespace mezzo::gpu
