// Shared parts of the attention kernels of f32: rows in shared memory, and the two products of a
// tile of 64 x 64 scores.
//
// A thread owns 8 x 4 numbers of a tile and loads factors in quads of 16 bytes: 12 loads serve 128
// multiplications. The 32 lanes of a warp are 2 rows x 16 columns, with neighbouring lanes in
// different rows: lanes i and i ^ 1 load the same quad of a column, i and i ^ 2 of a row, so that
// the GPU serves half a warp at once. A row of scores belongs to one warp.
//
// Sums run in the order of the terms, as those of attention.h.
#pragma once

#include "../../runtime/shared_memory.h"
#include "attention.h"

namespace mezzo::gpu {

inline constexpr int kQuadThreads = 128, kQuadTile = 64, kQuadSize = 4;
inline constexpr int kQuadRows = 8, kQuadColumns = 4;         // of a thread
inline constexpr int kQuadRowStep = 8, kQuadColumnStep = 16;  // between those of scores
inline constexpr int kQuadsOfRow = kQuadTile / kQuadSize;     // and threads that load a row
/** Distance of rows in shared memory. 8 neighbouring rows of operands have their quads in different
 *  banks; 2 neighbouring rows of scores have their 16 columns in different banks. */
inline constexpr int kQuadPitch = kQuadTile + 4, kScorePitch = kQuadTile + 16;

using Quad = Pack<float, kQuadSize>;
/** Rows of operands and of scores in shared memory, aligned to quads. */
using QuadRows = float[kQuadTile * kQuadPitch];
using ScoreRows = float[kQuadTile * kScorePitch];
/** A thread's numbers of a tile. */
using QuadNumbers = float[kQuadRows][kQuadColumns];

__device__ inline Quad& quad_at(float* x) { return *reinterpret_cast<Quad*>(x); }
__device__ inline const Quad& quad_at(const float* x) { return *reinterpret_cast<const Quad*>(x); }

__device__ inline int quads_in(std::int64_t n) {
  return static_cast<int>((n < kQuadTile ? n : kQuadTile) + kQuadSize - 1) / kQuadSize;
}

/** Allows a kernel, which is launched next, the shared memory of a Room, and returns its size. */
template <class Room, class... Ps> std::size_t shared_room(void (*kernel)(Ps...)) {
  runtime::allow_shared(reinterpret_cast<const void*>(kernel), sizeof(Room));
  return sizeof(Room);
}

/** The numbers that a thread owns of a tile of scores: 8 rows, 4 columns of each. Of results it
 *  owns the same rows, and 4 adjacent columns. */
struct QuadScores {
  static constexpr int kCount = kQuadRows * kQuadColumns;
  static_assert(kCount <= 32);  // one bit per score
  int first_row = static_cast<int>(threadIdx.x) / kWarpSize * 2 + static_cast<int>(threadIdx.x) % 2;
  int first_column = static_cast<int>(threadIdx.x) % kWarpSize / 2;

  __device__ int row(int i) const { return first_row + i / kQuadColumns * kQuadRowStep; }
  __device__ int column(int i) const { return first_column + i % kQuadColumns * kQuadColumnStep; }
  /** Returns the place of number i in shared memory. */
  __device__ int place(int i) const { return row(i) * kScorePitch + column(i); }

  /** Calls f(i, number i) for the numbers of x. */
  template <class X, class F> __device__ void each(X& x, const F& f) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) f(i, x[i / kQuadColumns][i % kQuadColumns]);
  }
  /** Stores the numbers to shared memory, for the warp. */
  __device__ void store(const QuadNumbers& x, float* scores) const {
    each(x, [&](int i, float number) { scores[place(i)] = number; });
  }

  /** Converts products of queries and keys into scores, without causality, and returns a bit per
   *  score that dropout keeps. at(row, column) returns a ScorePlace; `room` is memory for scores.
   */
  template <class At>
  __device__ std::uint32_t find_scores(const AttentionCall& call, std::int64_t entry,
                                       QuadNumbers& scores, float* room, const At& at) const {
    std::uint32_t left = ~std::uint32_t{0};
    if (call.mask.data || call.drops) {
      store(scores, room);
      left =
          prepare_scores(call, entry, call.offset(call.mask, entry), *this, room, kScorePitch, at);
      each(scores, [&](int i, float& score) { score = room[place(i)]; });
    }
    const float scale = static_cast<float>(call.scale);
    if (!call.mask.data) each(scores, [&](int, float& score) { score *= scale; });
    return left;
  }
};

/** Returns e^x, for probabilities: x is at most 0, but for roundings. On a GPU it takes two
 *  instructions, with a relative error of 2^-22 + |x| 2^-24; results below 2^-126 are 0. */
__device__ inline float probability(float x) {
#ifdef __CUDA_ARCH__
  constexpr float kLog2E = 0x1.715476p+0f;
  float result;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(result) : "f"(x * kLog2E));
  return result;
#else
  return math::exp(x);
#endif
}

/** A matrix of f32 whose rows, of up to 64 elements, are loaded and stored in quads. */
struct QuadMatrix {
  AttentionOperand x;
  std::int64_t rows, columns;
  bool in_quads;  // rows consist of quads, aligned to 16 bytes
  bool across;    // columns, not rows, are contiguous

  QuadMatrix(const AttentionOperand& matrix, std::int64_t num_rows, std::int64_t num_columns)
      : x(matrix), rows(num_rows), columns(num_columns), across(x.row < x.column) {
    std::int64_t steps = x.row | columns;
    for (const std::int64_t step : x.batch) steps |= step;
    in_quads = x.column == 1 && steps % kQuadSize == 0 &&
               reinterpret_cast<std::uintptr_t>(x.data) % sizeof(Quad) == 0;
  }
  __device__ float* at(std::int64_t offset, std::int64_t row, std::int64_t column) const {
    return static_cast<float*>(x.data) + offset + row * x.row + column * x.column;
  }

  /** Loads elements [column, column + 4) of a row, zeros beyond the matrix. */
  __device__ Quad load(std::int64_t offset, std::int64_t row, int column) const {
    Quad quad{};
    if (row >= rows || column >= columns) return quad;
    if (in_quads) return quad_at(at(offset, row, column));
#pragma unroll
    for (int i = 0; i < kQuadSize; ++i)
      if (column + i < columns) quad.item[i] = *at(offset, row, column + i);
    return quad;
  }

  /** Loads 64 rows from `first` on into shared memory, with zeros beyond the matrix. All threads
   *  must call it. */
  __device__ void load_tile(std::int64_t offset, std::int64_t first, float* tile) const {
    if (!in_quads) return load_elements(offset, first, tile);
    constexpr int kLoads = kQuadTile * kQuadsOfRow / kQuadThreads, kStep = kQuadTile / kLoads;
    const int row = static_cast<int>(threadIdx.x) / kQuadsOfRow,
              column = static_cast<int>(threadIdx.x) % kQuadsOfRow * kQuadSize;
    const std::int64_t left = column < columns ? rows - first - row : 0;
    const float* from = at(offset, first + row, column);
    Quad quads[kLoads];
    if (left > kQuadTile - kStep) {  // all rows
#pragma unroll
      for (int i = 0; i < kLoads; ++i) quads[i] = quad_at(from + i * kStep * x.row);
    } else {
#pragma unroll
      for (int i = 0; i < kLoads; ++i)
        quads[i] = i * kStep < left ? quad_at(from + i * kStep * x.row) : Quad{};
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      quad_at(tile + (row + i * kStep) * kQuadPitch + column) = quads[i];
  }

  /** Stores the thread's results to their rows from `first` on. */
  __device__ void store(const QuadNumbers& results, const QuadScores& own, std::int64_t offset,
                        std::int64_t first) const {
    const int column = own.first_column * kQuadColumns;
#pragma unroll
    for (int i = 0; i < kQuadRows; ++i) {
      const std::int64_t row = first + own.first_row + i * kQuadRowStep;
      Quad quad;
#pragma unroll
      for (int j = 0; j < kQuadColumns; ++j) quad.item[j] = results[i][j];
      if (row >= rows || column >= columns) continue;
      if (in_quads) {
        quad_at(at(offset, row, column)) = quad;
        continue;
      }
#pragma unroll
      for (int j = 0; j < kQuadColumns; ++j)
        if (column + j < columns) *at(offset, row, column + j) = quad.item[j];
    }
  }

 private:
  __device__ void load_elements(std::int64_t offset, std::int64_t first, float* tile) const {
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < kQuadTile * kQuadTile; i += kQuadThreads) {
      const int row = across ? i % kQuadTile : i / kQuadTile,
                column = across ? i / kQuadTile : i % kQuadTile;
      const bool inside = first + row < rows && column < columns;
      tile[row * kQuadPitch + column] = inside ? *at(offset, first + row, column) : 0.0f;
    }
  }
};

/** Adds the products of a quad of each of the thread's rows with 4 x 4 factors. */
template <int kPitch, class Factor>
__device__ inline void add_quads(QuadNumbers& sums, const float* rows, const Factor& factor) {
#pragma unroll
  for (int i = 0; i < kQuadRows; ++i) {
    const Quad a = quad_at(rows + i * kQuadRowStep * kPitch);
#pragma unroll
    for (int e = 0; e < kQuadSize; ++e)
#pragma unroll
      for (int j = 0; j < kQuadColumns; ++j)
        sums[i][j] = std::fma(a.item[e], factor(e, j), sums[i][j]);
  }
}

/** Adds the products of the thread's rows of `left` with those of its columns, rows of `right`,
 *  over quads of terms. */
__device__ inline void add_row_quads(QuadNumbers& sums, const QuadScores& own, const float* left,
                                     const float* right, int quads) {
  left += own.first_row * kQuadPitch;
  right += own.first_column * kQuadPitch;
#pragma unroll 2
  for (int t = 0; t < quads; ++t, left += kQuadSize, right += kQuadSize) {
    Quad b[kQuadColumns];
#pragma unroll
    for (int j = 0; j < kQuadColumns; ++j) b[j] = quad_at(right + j * kQuadColumnStep * kQuadPitch);
    add_quads<kQuadPitch>(sums, left, [&](int e, int j) { return b[j].item[e]; });
  }
}

/** Adds the rows of x, weighted with the thread's rows of a tile of scores, over quads of rows. */
__device__ inline void add_weighted_quads(QuadNumbers& results, const QuadScores& own,
                                          const float* weights, const float* x, int quads) {
  weights += own.first_row * kScorePitch;
  x += own.first_column * kQuadColumns;
#pragma unroll 2
  for (int t = 0; t < quads; ++t, weights += kQuadSize, x += kQuadSize * kQuadPitch) {
    Quad b[kQuadSize];
#pragma unroll
    for (int e = 0; e < kQuadSize; ++e) b[e] = quad_at(x + e * kQuadPitch);
    add_quads<kScorePitch>(results, weights, [&](int e, int j) { return b[e].item[j]; });
  }
}

}  // namespace mezzo::gpu
