// The CUDA kernels of layer_norm's gradients of weight and bias, for any layout: sums over the
// rows, first over chunks of rows, then over the chunks, in an order that depends on the shape
// alone. See also: layer_norm_backward.cu (packs).
#include <algorithm>

#include "../../../tensor/cpu/order.h"
#include "layer_norm.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::GradientSums;
using cpu_kernels::Plus;

/** Elements of a row per thread, held in registers. */
constexpr int kKept = 4;

/** Computes the gradient of x for a chunk of rows, and the chunk's sums for the gradients of weight
 *  and bias. A thread has the same columns in every row. A block processes `turns` rows for each of
 *  its lines. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    fused_backward_kernel(const RowNormBackward __grid_constant__ norm, std::int64_t turns,
                          GradientSums<C>* partial) {
  MZ_SHARED(GradientSums<C>, room, kSpreadThreads);
  const Lines& rows = norm.rows;
  const Role at = role_in(rows.spread);
  C weight[kKept];
  GradientSums<C> sums[kKept];
#pragma unroll
  for (int j = 0; j < kKept; ++j) {
    const std::int64_t i = at.part + j * rows.spread.parts;
    weight[j] = i < rows.length ? norm.weight.load_or(i, C(1)) : C(0);
  }
  const std::int64_t first = blockIdx.x * turns;
  for (std::int64_t turn = 0; turn < turns && (first + turn) * rows.spread.slots < rows.count;
       ++turn) {
    const LineWalk walk(rows, first + turn);
    const RowStatistics<C> row(norm, walk);
    C gw[kKept], xh[kKept];
    GradientSums<C> own;
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      const std::int64_t i = at.part + j * rows.spread.parts;
      const bool has = walk.has_line && i < rows.length;
      const C g = has ? norm.g.load<C>(walk.base + i) : C(0);
      xh[j] = has ? row.normalised(norm.x.load<C>(walk.base + i)) : C(0);
      gw[j] = g * weight[j];
      own = own + GradientSums<C>{gw[j], gw[j] * xh[j]};
      sums[j] = sums[j] + GradientSums<C>{g, g * xh[j]};
    }
    own = joined(rows.spread, at, room, own, Plus{});
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      const std::int64_t i = at.part + j * rows.spread.parts;
      if (walk.has_line && i < rows.length)
        norm.gx.store<C>(walk.base + i, row.gradient(gw[j], xh[j], own, norm));
    }
  }
  const Spread columns{.slots = rows.spread.parts, .parts = rows.spread.slots, .across = true};
#pragma unroll
  for (int j = 0; j < kKept; ++j) {
    const std::int64_t i = at.part + j * rows.spread.parts;
    const GradientSums<C> sum = joined(columns, role_in(columns), room, sums[j], Plus{});
    if (at.slot == 0 && i < rows.length) partial[blockIdx.x * rows.length + i] = sum;
  }
}

/** Computes only the sums of a chunk of rows. Lines are the columns. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    affine_sums_kernel(const RowNormBackward __grid_constant__ norm,
                       const Lines __grid_constant__ columns, const Pieces chunks,
                       GradientSums<C>* partial) {
  MZ_SHARED(GradientSums<C>, room, kSpreadThreads);
  const Role at = role_in(columns.spread);
  const auto count = static_cast<unsigned>(chunks.count);
  const std::int64_t chunk = blockIdx.x % count, begin = chunk * chunks.length,
                     column = std::int64_t{blockIdx.x / count} * columns.spread.slots + at.slot;
  const bool has_column = column < columns.count;
  GradientSums<C> sums;
  for (std::int64_t i = at.part; has_column && i < chunks.length && begin + i < columns.length;
       i += columns.spread.parts) {
    const std::int64_t row = begin + i, place = row * columns.count + column;
    const C g = norm.g.load<C>(place), mean = norm.mean.load_or(row, C(0));
    sums = sums + GradientSums<C>{g, g * ((norm.x.load<C>(place) - mean) * norm.rstd.load<C>(row))};
  }
  sums = joined(columns.spread, at, room, sums, Plus{});
  if (has_column && at.part == 0) partial[chunk * columns.count + column] = sums;
}

/** Computes the gradients of weight and bias: the sums of all chunks. Lines are the columns. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    join_affine_kernel(const Lines __grid_constant__ chunks, const GradientSums<C>* partial,
                       const Array gw, const Array gb) {
  MZ_SHARED(GradientSums<C>, room, kSpreadThreads);
  const LineWalk walk(chunks);
  const GradientSums<C> sums =
      walk.fold(room, GradientSums<C>{}, Plus{},
                [&](std::int64_t place, std::int64_t) { return partial[place]; });
  if (!walk.is_first()) return;
  gw.store<C>(walk.line, sums.gx);
  gb.store<C>(walk.line, sums.g);
}

/** Returns the number of rows per line of the fused kernel's blocks. */
Pieces turns_of(const Lines& rows) {
  constexpr std::int64_t kLeast = 4;  // amortises writing and reading the chunk's sums
  return {rows.blocks(), std::max(kLeast, blocks_for(rows.blocks(), kPlenty))};
}

/** Returns the chunks of rows for the sums over columns. */
Pieces chunks_of(const Lines& columns) {
  constexpr std::int64_t kLeast = 64;
  const std::int64_t most = blocks_for(kPlenty, std::max<std::int64_t>(1, columns.blocks()));
  return {columns.length, std::max(kLeast, blocks_for(columns.length, most))};
}

/** Calls run(partial) to compute the sums of all chunks, and launches their sums. */
template <class C, class Run>
void put_affine(std::int64_t chunks, std::int64_t length, Device device, Outputs out,
                const Run& run) {
  const Tensor room =
      workspace(chunks * length * static_cast<std::int64_t>(sizeof(GradientSums<C>)), device);
  auto* const partial = static_cast<GradientSums<C>*>(room.raw_data());
  run(partial);
  Lines lines = lines_along({chunks, length}, 0);
  // There are many chunks per column: a block gets few columns, adjacent in whole memory sectors.
  lines.spread = {.slots = 8, .parts = kSpreadThreads / 8, .across = true};
  launch(&join_affine_kernel<C>, grid_of(lines), current_stream(device), lines, partial,
         Array(out[1]), Array(out[2]));
}

template <class C> void backward_of_all(const RowNormBackward& norm, Device device, Outputs out) {
  const Lines& rows = norm.rows;
  const Lines columns = lines_along({rows.count, rows.length}, 0);
  const bool fits = rows.length <= kKept * std::int64_t{rows.spread.parts};
  const Pieces pieces = fits ? turns_of(rows) : chunks_of(columns);
  const runtime::Stream stream = current_stream(device);
  put_affine<C>(pieces.count, rows.length, device, out, [&](GradientSums<C>* partial) {
    if (fits)
      return launch(&fused_backward_kernel<C>,
                    {.blocks = pieces.count, .threads = rows.spread.threads()}, stream, norm,
                    pieces.length, partial);
    row_norm_gradient(norm, dtype_of<C>(), device);
    launch(&affine_sums_kernel<C>, pieces.grid(columns), stream, norm, columns, pieces, partial);
  });
}

}  // namespace

void row_norm_gradients(const RowNormBackward& norm, DType dtype, Device device, Outputs out) {
  visit_floating_compute(
      dtype, [&]<class C>(std::type_identity<C>) { backward_of_all<C>(norm, device, out); });
}

}  // namespace mezzo::gpu
