// Sums of the columns of matrices in packs of 16 bytes.
#pragma once

#include <bit>
#include <numeric>
#include <optional>

#include "reduce.h"

namespace mezzo::gpu {

using PackedSum = SumOf<float>;

/** Columns of packs of some matrices over blocks: each block has `lanes` packs of a chunk of the
 *  rows of one. Rows that are not whole packs are joined: `joined` of the matrix are a row here. */
struct PackColumns {
  std::int64_t matrices, rows;  // rows of a matrix
  int packs, lanes, strips;     // packs of a row and of a block, blocks of a row
  int joined;
  std::int64_t chunk_rows, chunks;

  PackColumns(std::int64_t its_matrices, std::int64_t its_rows, std::int64_t its_packs,
              int its_joined)
      : matrices(its_matrices),
        rows(its_rows),
        packs(static_cast<int>(its_packs)),
        joined(its_joined) {
    lanes = static_cast<int>(
        std::bit_ceil(static_cast<std::uint64_t>(std::min<std::int64_t>(its_packs, kWarpSize))));
    strips = static_cast<int>(blocks_for(its_packs, lanes));
    const std::int64_t turn =
        kHeldPacks * (kTeamThreads / lanes);  // rows that a block loads at once
    const std::int64_t most = std::max<std::int64_t>(1, kPlenty / (matrices * strips));
    chunk_rows = std::max(turn, blocks_for(rows, most));
    chunks = blocks_for(rows, chunk_rows);
  }
  Grid grid() const { return {.blocks = matrices * chunks * strips, .threads = kTeamThreads}; }
  /** Returns the number of partial sums of a result. */
  MZ_HD std::int64_t parts() const { return chunks * joined; }
  /** Returns the place of a partial sum: that of a column of a chunk of a matrix. */
  __device__ std::int64_t part_of(std::int64_t matrix, std::int64_t column, std::int64_t length,
                                  std::int64_t chunk) const {
    const int width = static_cast<int>(length) / joined, at = static_cast<int>(column);
    return (matrix * width + at % width) * parts() + chunk * joined + at / width;
  }
};

/** Stores the sum of a column that one block has, or repeats it first. Not inlined: this is the
 * slow way. */
template <class T>
__device__ __noinline__ void repeat_column(const T* x, std::int64_t rows, std::int64_t length,
                                           PackedSum sum, std::int64_t matrix,
                                           std::int64_t column) {
  sum = sum.rescaled(0);
  float state = 0;
  x += matrix * rows * length;
  for (std::int64_t row = 0; row < rows; ++row)
    state = sum.add(state, element_as<float>(x[row * length + column]), row);
  sum.finish(matrix * length + column, state);
}

/** The kernel that sums chunks of columns of packs of C, whose elements are stored as T: as C, or
 * in 16 bits, with the sums of packs of f32. `source` has them: load(at) loads what is needed for a
 *  pack, words(at, loaded, exists) returns its elements. x: their memory, where repeated sums find
 *  them. `room` is shared, of kTeamThreads packs in f32. */
template <class T, class C, class Source>
__device__ inline void sum_columns_of_packs(const PackColumns& columns, const Source& source,
                                            const T* x, const PackedSum& sum, float* partial,
                                            float* room) {
  constexpr int kWidth = kPerPack<C>;
  using Held = typename Source::Held;
  const auto strips = static_cast<unsigned>(columns.strips);
  const int thread = static_cast<int>(threadIdx.x), slot = thread / columns.lanes,
            slots = kTeamThreads / columns.lanes,
            first_pack = static_cast<int>(blockIdx.x % strips) * columns.lanes,
            pack = first_pack + thread % columns.lanes;
  const Split place(blockIdx.x / strips, columns.chunks);
  const std::int64_t matrix = place.quotient, chunk = place.rest,
                     begin = chunk * columns.chunk_rows, left = columns.rows - begin,
                     end = begin + (left < columns.chunk_rows ? left : columns.chunk_rows);
  const std::int64_t first = matrix * columns.rows * columns.packs + pack;
  float sums[kWidth] = {};
  for (std::int64_t row = begin + slot; pack < columns.packs && row < end;
       row += kHeldPacks * slots) {
    Held held[kHeldPacks] = {};
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j)
      if (row + j * slots < end) held[j] = source.load(first + (row + j * slots) * columns.packs);
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j) {  // packs beyond the end are 0
      float values[kWidth];
      const bool exists = row + j * slots < end;
      widen_part<kWidth, T>(
          source.words(first + (row + j * slots) * columns.packs, held[j], exists), values);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) sums[k] += values[k];
    }
  }
#pragma unroll
  for (int k = 0; k < kWidth; ++k) room[thread * kWidth + k] = sums[k];
  __syncthreads();
  const int width = columns.lanes * kWidth;
  for (int at = thread; at < width; at += kTeamThreads) {
    float state = 0;
    for (int i = 0; i < slots; ++i) state += room[i * width + at];
    const std::int64_t column = std::int64_t{first_pack} * kWidth + at,
                       length = std::int64_t{columns.packs} * kWidth;
    if (column >= length) continue;
    if (partial)
      partial[columns.part_of(matrix, column, length, chunk)] = state;
    else if (sum.is_safe(state))
      sum.finish(matrix * length + column, state);
    else
      repeat_column(x, columns.rows, length, sum, matrix, column);
  }
}

/** Returns how the columns of the view are summed; nothing unless they are those of one or several
 *  matrices of f16, bf16 or f32, of any width where the rows can be joined. */
inline std::optional<PackColumns> columns_of_packs(const PackView& view, DType dtype) {
  if (view.reduced.rank != 1 || view.reduced.strides[0] == 1 || view.reduced.count == 0 ||
      view.kept.rank == 0 || view.kept.count == 0)
    return std::nullopt;
  const std::int64_t width = view.kept.sizes[view.kept.rank - 1],
                     matrices = view.kept.count / width, rows = view.reduced.count,
                     per_pack = elements_per_pack(dtype),
                     joined = per_pack / std::gcd(width, per_pack);
  if (!are_packs(width * joined, dtype) || rows % joined != 0) return std::nullopt;
  const PackColumns columns(matrices, rows / joined, width * joined / per_pack,
                            static_cast<int>(joined));
  if ((matrices > 1 || joined > 1) && columns.rows * columns.lanes < kTeamThreads)
    return std::nullopt;  // too few packs for the threads of a block
  return columns;
}

}  // namespace mezzo::gpu
