// Tiled product of two matrices given as functions, C = L R with L(row, term) and R(term, column).
// Used for matrix products of any layout and for convolutions.
//
// A block computes a tile of 64 x 64 results, 4 x 4 per thread. Both factors pass through shared
// memory in slices of 16 terms. Where results are few and terms are many, the terms are cut into
// parts with separate partial sums, which a second launch adds in order. The cut depends on the
// shape alone, so that every run gives the same bits.
//
// A problem P defines: entries, m, n, k; a type Entry and `Entry entry(std::int64_t)` for one of
// its entries; left<C>(entry, row, term) and right<C>(entry, term, column); left_along_terms and
// right_along_terms, true where neighbouring terms are adjacent in memory; store(entry, row,
// column, sum).
#pragma once

#include <algorithm>
#include <type_traits>

#include "../../tensor/core/tensor.h"
#include "../../tensor/ops/elementwise/formula.h"
#include "../runtime/device.h"
#include "element.h"
#include "host_lines.h"

namespace mezzo::gpu {

inline constexpr int kTile = 64, kTileDepth = 16, kTileSide = 16, kTileOwn = kTile / kTileSide;
inline constexpr int kTileThreads = kTileSide * kTileSide;
inline constexpr int kTileLoads = kTile * kTileDepth / kTileThreads;
inline constexpr int kTilePitch = kTile + 1;  // avoids bank conflicts of stores

/** Returns a * b + c: rounded once for floats, modulo 2^64 for integers. */
template <class C> __device__ inline C multiplied_and_added(C a, C b, C c) {
  if constexpr (std::is_integral_v<C>)
    return op::plus(op::times(a, b), c);
  else
    return fma(a, b, c);
}

/** The cut of a problem: terms per part, number of parts, and the memory for partial sums where
 *  there are several. */
struct TileCut {
  std::int64_t terms = 0, parts = 1;
  void* partials = nullptr;  // [part][entry][row][column]
};

/** The tile of a block. */
struct TilePlace {
  std::int64_t row, column;  // of the tile's first element
  std::int64_t entry, part;
};

template <class P> __device__ inline TilePlace tile_place(const P& problem) {
  const std::int64_t rows = (problem.m + kTile - 1) / kTile,
                     columns = (problem.n + kTile - 1) / kTile;
  std::int64_t index = blockIdx.x;
  TilePlace at{};
  at.column = index % columns * kTile;
  index /= columns;
  at.row = index % rows * kTile;
  index /= rows;
  at.entry = index % problem.entries;
  at.part = index / problem.entries;
  return at;
}

/** Loads a slice into shared memory as tile[term][line], with zeros outside the matrix.
 *  Neighbouring threads load neighbouring terms or lines. */
template <class C, class Load>
__device__ inline void load_slice(bool along_terms, std::int64_t first_line, std::int64_t lines,
                                  std::int64_t first_term, std::int64_t terms,
                                  C (*tile)[kTilePitch], const Load& load) {
#pragma unroll
  for (int i = 0; i < kTileLoads; ++i) {
    const int index = static_cast<int>(threadIdx.x) + i * kTileThreads;
    const int line = along_terms ? index / kTileDepth : index % kTile;
    const int term = along_terms ? index % kTileDepth : index / kTile;
    const bool inside = first_line + line < lines && first_term + term < terms;
    tile[term][line] = inside ? load(first_line + line, first_term + term) : C(0);
  }
}

template <class C, class P>
__global__ void __launch_bounds__(kTileThreads)
    tile_kernel(const P __grid_constant__ problem, const TileCut cut) {
  using Line = C[kTilePitch];
  MZ_SHARED(Line, left, kTileDepth);
  MZ_SHARED(Line, right, kTileDepth);
  const TilePlace at = tile_place(problem);
  const typename P::Entry entry = problem.entry(at.entry);
  const int own_row = static_cast<int>(threadIdx.x) / kTileSide;
  const int own_column = static_cast<int>(threadIdx.x) % kTileSide;
  const std::int64_t begin = at.part * cut.terms;
  const std::int64_t end = begin + cut.terms < problem.k ? begin + cut.terms : problem.k;
  C sums[kTileOwn][kTileOwn] = {};
  for (std::int64_t term = begin; term < end; term += kTileDepth) {
    load_slice<C>(
        problem.left_along_terms, at.row, problem.m, term, end, left,
        [&](std::int64_t row, std::int64_t t) { return problem.template left<C>(entry, row, t); });
    load_slice<C>(problem.right_along_terms, at.column, problem.n, term, end, right,
                  [&](std::int64_t column, std::int64_t t) {
                    return problem.template right<C>(entry, t, column);
                  });
    __syncthreads();
#pragma unroll
    for (int t = 0; t < kTileDepth; ++t) {
      C a[kTileOwn], b[kTileOwn];
#pragma unroll
      for (int i = 0; i < kTileOwn; ++i) {
        a[i] = left[t][own_row + i * kTileSide];
        b[i] = right[t][own_column + i * kTileSide];
      }
#pragma unroll
      for (int i = 0; i < kTileOwn; ++i)
#pragma unroll
        for (int j = 0; j < kTileOwn; ++j)
          sums[i][j] = multiplied_and_added(a[i], b[j], sums[i][j]);
    }
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < kTileOwn; ++i)
#pragma unroll
    for (int j = 0; j < kTileOwn; ++j) {
      const std::int64_t row = at.row + own_row + i * kTileSide,
                         column = at.column + own_column + j * kTileSide;
      if (row >= problem.m || column >= problem.n) continue;
      if (cut.parts == 1)
        problem.template store<C>(entry, row, column, sums[i][j]);
      else
        static_cast<C*>(
            cut.partials)[((at.part * problem.entries + at.entry) * problem.m + row) * problem.n +
                          column] = sums[i][j];
    }
}

/** Adds the partial sums of each result in order. */
template <class C, class P>
__global__ void __launch_bounds__(kTileThreads)
    add_parts_kernel(const P __grid_constant__ problem, const TileCut cut) {
  const std::int64_t results = problem.entries * problem.m * problem.n;
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kTileThreads + threadIdx.x;
  if (index >= results) return;
  const C* partials = static_cast<const C*>(cut.partials) + index;
  C sum = partials[0];
  for (std::int64_t part = 1; part < cut.parts; ++part)
    sum = op::plus(sum, partials[part * results]);
  const std::int64_t of_entry = index % (problem.m * problem.n);
  problem.template store<C>(problem.entry(index / (problem.m * problem.n)), of_entry / problem.n,
                            of_entry % problem.n, sum);
}

/** Blocks that fill a large GPU, and the smallest number of terms per part. */
inline constexpr std::int64_t kEnoughBlocks = 128, kFewestTerms = 256;

template <class C, class P> void run_tiles(const P& problem, Device device) {
  const std::int64_t tiles =
      problem.entries * blocks_for(problem.m, kTile) * blocks_for(problem.n, kTile);
  if (tiles == 0) return;
  const runtime::Stream stream = current_stream(device);
  TileCut cut{.terms = problem.k};
  cut.parts = std::clamp(kEnoughBlocks / tiles, std::int64_t{1},
                         std::max(problem.k / kFewestTerms, std::int64_t{1}));
  Tensor partials;
  if (cut.parts > 1) {
    cut.terms = blocks_for(blocks_for(problem.k, cut.parts), kTileDepth) * kTileDepth;
    cut.parts = blocks_for(problem.k, cut.terms);
    const std::int64_t results = problem.entries * problem.m * problem.n;
    partials = workspace(cut.parts * results * static_cast<std::int64_t>(sizeof(C)), device);
    cut.partials = partials.raw_data();
  }
  launch(&tile_kernel<C, P>, {.blocks = tiles * cut.parts, .threads = kTileThreads}, stream,
         problem, cut);
  if (cut.parts == 1) return;
  const std::int64_t results = problem.entries * problem.m * problem.n;
  launch(&add_parts_kernel<C, P>,
         {.blocks = blocks_for(results, kTileThreads), .threads = kTileThreads}, stream, problem,
         cut);
}

}  // namespace mezzo::gpu
