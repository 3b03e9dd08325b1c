// The CUDA kernels of layer_norm, also of a sum, of rms_norm, and of their gradients.
#include "../../tensor/ops/layer_norm.h"

#include <algorithm>

#include "../../tensor/core/registry.h"
#include "../../tensor/cpu/gradient_sums.h"
#include "../../tensor/cpu/moments.h"
#include "../../tensor/elementwise/arithmetic.h"
#include "../attach.h"
#include "last_block.h"
#include "line_piece.h"
#include "typed.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::GradientSums;
using cpu_kernels::Moments;
using cpu_kernels::Plus;
using math::detail::multiply_add;

/** Operands of the kernels: rows of x, one weight and bias per column (or none), one mean
 *  (layer_norm only) and rstd per row. */
struct RowNorm {
  Lines rows;
  Array x, weight, bias, y, mean, rstd;
  double eps = 0;
  Array branch = {}, sum = {};  // add_layer_norm: x + branch is written and normalised
};

/** Computes y = (x - mean) * rstd * weight + bias. */
template <class C, bool centred>
__global__ void __launch_bounds__(kSpreadThreads)
    row_norm_kernel(const __grid_constant__ RowNorm norm) {
  using State = typename Moments<C>::State;
  MZ_SHARED(State, room, kSpreadThreads);
  const LineWalk walk(norm.rows);
  const auto combine = [](State a, State b) { return Moments<C>{}.combine(a, b); };
  const auto sum = [](State a, State b) -> State { return {C(0), C(0), a.squares + b.squares}; };
  const State none{C(0), C(0), C(0)};
  State state = none;
  if constexpr (centred)
    state = walk.fold(room, none, combine, [&](std::int64_t place, std::int64_t) -> State {
      return {C(1), norm.x.load<C>(place), C(0)};
    });
  else
    state = walk.fold(room, none, sum, [&](std::int64_t place, std::int64_t) -> State {
      const C x = norm.x.load<C>(place);
      return {C(0), C(0), x * x};
    });
  const C mean = state.mean;
  const C rstd =
      C(1) / std::sqrt(state.squares / static_cast<C>(norm.rows.length) + static_cast<C>(norm.eps));
  if (walk.is_first()) {
    if (centred) norm.mean.store<C>(walk.line, mean);
    norm.rstd.store<C>(walk.line, rstd);
  }
  walk.for_each([&](std::int64_t place, std::int64_t i) {
    const C scaled = (norm.x.load<C>(place) - mean) * rstd * norm.weight.load_or(i, C(1));
    norm.y.store<C>(place, scaled + norm.bias.load_or(i, C(0)));
  });
}

/** Returns the sums of two packs of T, rounded. */
template <class T> __device__ PackWords sum_of(const PackWords& x, const PackWords& y) {
  constexpr int kWidth = kPerPack<T>;
  float a[kWidth], b[kWidth];
  widen<T>(x, a);
  widen<T>(y, b);
#pragma unroll
  for (int k = 0; k < kWidth; ++k) a[k] += b[k];
  return narrowed_words<T, kWidth>(a);
}

/** Writes x + branch, rounded to T, to the row of `sums`. If it is one chunk it is held there. */
template <class T>
__device__ void take_sums(RowPacks<T, 1>& sums, const T* x, const T* branch, T* to) {
  constexpr int kWidth = kPerPack<T>;
#pragma unroll 1
  for (int chunk = 0; chunk < sums.packs; chunk += kHeldPacks * sums.lanes) {
    PackWords other[kHeldPacks];
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j) {
      const int at = chunk + j * sums.lanes + sums.lane;
      if (at >= sums.packs) break;
      sums.pack[j][0] = reinterpret_cast<const PackWords*>(x)[at];
      other[j] = reinterpret_cast<const PackWords*>(branch)[at];
    }
#pragma unroll
    for (int j = 0; j < kHeldPacks; ++j) {
      const int at = chunk + j * sums.lanes + sums.lane;
      if (at >= sums.packs) break;
      sums.pack[j][0] = sum_of<T>(sums.pack[j][0], other[j]);
      store_words(to + at * kWidth, sums.pack[j][0]);
    }
    sums.held = chunk;
  }
}

/** The same for rows of packs of T, with weight and bias of W; if it `adds`, of x + branch. */
template <class T, class W, bool centred, bool adds>
__global__ void __launch_bounds__(kTeamThreads)
    packed_norm_kernel(const __grid_constant__ RowNorm norm, const Teams teams) {
  constexpr int kWidth = kPerPack<T>;
  MZ_SHARED(float, room, kTeamWarps);
  const Team team(teams);
  const std::int64_t base = team.row * norm.rows.length;
  RowPacks<T, 1> x(team, teams.packs,
                   static_cast<const T*>(adds ? norm.sum.data : norm.x.data) + base);
  if constexpr (adds)
    take_sums(x, static_cast<const T*>(norm.x.data) + base,
              static_cast<const T*>(norm.branch.data) + base,
              static_cast<T*>(norm.sum.data) + base);
  const auto count = static_cast<float>(norm.rows.length);
  float mean = 0, squares = 0;
  if constexpr (centred) {
    x.for_each([&](int, int, const float(&v)[1][kWidth]) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) mean += v[0][k];
    });
    mean = team.all(mean, Plus{}, room) / count;
  }
  x.for_each([&](int, int, const float(&v)[1][kWidth]) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const float step = v[0][k] - mean;
      squares = multiply_add(step, step, squares);
    }
  });
  squares = team.all(squares, Plus{}, room);
  const float rstd = 1.0f / std::sqrt(squares / count + static_cast<float>(norm.eps));
  if (team.is_first()) {
    if (centred) norm.mean.store<float>(team.row, mean);
    norm.rstd.store<float>(team.row, rstd);
  }
  const W* const weight = static_cast<const W*>(norm.weight.data);
  const W* const bias = static_cast<const W*>(norm.bias.data);
  x.for_each([&](int, int at, const float(&v)[1][kWidth]) {
    float y[kWidth], affine[kWidth];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) y[k] = (v[0][k] - mean) * rstd;
    if (weight) {
      load_values<kWidth>(weight + at, affine);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) y[k] *= affine[k];
    }
    if (bias) {
      load_values<kWidth>(bias + at, affine);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) y[k] += affine[k];
    }
    store_values<kWidth>(static_cast<T*>(norm.y.data) + base + at, y);
  });
}

// ---- gradients ----------------------------------------------------------------------------------
//
// gx = rstd * (gw - mean(gw) - xh * mean(gw * xh)) per row, with gw = g * weight and xh the
// normalised x; without the first mean for rms_norm. If x is a sum, the gradient that the sum gets
// elsewhere is added to gx after its rounding. The gradients of weight and bias are sums over
// the rows: first over chunks of rows, then over the chunks, in an order that depends on the shape
// alone.

struct RowNormBackward {
  Lines rows;
  Array g, x, weight, mean, rstd, gx;
  Array rest = {};  // of packs: the sum's other gradient
};

/** Statistics shared by a row's elements. */
template <class C> struct RowStatistics {
  C mean, rstd;
  __device__ RowStatistics(const RowNormBackward& norm, const LineWalk& walk)
      : mean(walk.has_line ? norm.mean.load_or(walk.line, C(0)) : C(0)),
        rstd(walk.has_line ? norm.rstd.load<C>(walk.line) : C(0)) {}
  __device__ RowStatistics(const RowNormBackward& norm, const Team& team)
      : mean(team.has_row ? norm.mean.load_or(team.row, C(0)) : C(0)),
        rstd(team.has_row ? norm.rstd.load<C>(team.row) : C(0)) {}
  __device__ C normalised(C x) const { return (x - mean) * rstd; }
  /** Returns gx of an element; `sums` are those of gw and gw * xh over the row. */
  __device__ C gradient(C gw, C xh, const GradientSums<C>& sums,
                        const RowNormBackward& norm) const {
    const C count = static_cast<C>(norm.rows.length),
            centre = norm.mean.data ? sums.g / count : C(0);
    return rstd * (gw - centre - xh * (sums.gx / count));
  }
};

/** Computes the gradient of x only. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    row_norm_backward_kernel(const __grid_constant__ RowNormBackward norm) {
  MZ_SHARED(GradientSums<C>, room, kSpreadThreads);
  const LineWalk walk(norm.rows);
  const RowStatistics<C> row(norm, walk);
  const auto weighted = [&](std::int64_t place, std::int64_t i) {
    return norm.g.load<C>(place) * norm.weight.load_or(i, C(1));
  };
  const auto normalised = [&](std::int64_t place) { return row.normalised(norm.x.load<C>(place)); };
  const auto terms = [&](std::int64_t place, std::int64_t i) -> GradientSums<C> {
    const C gw = weighted(place, i);
    return {gw, gw * normalised(place)};
  };
  const GradientSums<C> sums = walk.fold(room, GradientSums<C>{}, Plus{}, terms);
  walk.for_each([&](std::int64_t place, std::int64_t i) {
    norm.gx.store<C>(place, row.gradient(weighted(place, i), normalised(place), sums, norm));
  });
}

/** Elements of a row per thread, held in registers. */
constexpr int kKept = 4;

/** Computes the gradient of x for a chunk of rows, and the chunk's sums for the gradients of weight
 *  and bias. A thread has the same columns in every row. A block processes `turns` rows for each of
 *  its lines. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    fused_backward_kernel(const __grid_constant__ RowNormBackward norm, std::int64_t turns,
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

/** The sums for the gradients of weight and bias: of chunks of rows, one chunk per block, then of
 *  groups of chunks, then of all. The last block of a group, and of all, adds them up, in an order
 *  that depends on the shape alone. */
struct AffineSums {
  GradientSums<float>*chunks = nullptr, *groups = nullptr;  // [chunks, columns], [groups, columns]
  unsigned* tickets = nullptr;                              // of each group, and then of all
  Array gw = {}, gb = {};

  static constexpr std::int64_t kGroup = 16;  // chunks
  static std::int64_t groups_of(std::int64_t chunks) { return blocks_for(chunks, kGroup); }
};

/** Returns the sum of `count` rows of `length` sums at one column, which other blocks wrote. */
__device__ inline GradientSums<float> column_sum(const GradientSums<float>* from, unsigned count,
                                                 std::int64_t length) {
  GradientSums<float> sum;
#pragma unroll 8
  for (unsigned i = 0; i < count; ++i) {
    GradientSums<float> one;
#ifdef __CUDA_ARCH__  // not from the cache of this multiprocessor
    asm volatile("ld.global.cg.v2.f32 {%0, %1}, [%2];"
                 : "=f"(one.g), "=f"(one.gx)
                 : "l"(__cvta_generic_to_global(from + i * length)));
#else
    one = from[i * length];
#endif
    sum = sum + one;
  }
  return sum;
}

/** Adds up the sums after the calling block has written its chunk's. */
__device__ inline void join_affine(const AffineSums& sums, std::int64_t length, int* room) {
  const unsigned group_size = AffineSums::kGroup, group = blockIdx.x / group_size,
                 first = group * group_size, groups = (gridDim.x + group_size - 1) / group_size,
                 left = gridDim.x - first, members = left < group_size ? left : group_size;
  const auto put = [&](std::int64_t column, const GradientSums<float>& sum) {
    sums.gw.store<float>(column, sum.gx);
    sums.gb.store<float>(column, sum.g);
  };
  if (!is_last_block(sums.tickets + group, members, room)) return;
  for (std::int64_t column = threadIdx.x; column < length; column += blockDim.x) {
    const GradientSums<float> sum =
        column_sum(sums.chunks + first * length + column, members, length);
    if (groups == 1)
      put(column, sum);
    else
      sums.groups[group * length + column] = sum;
  }
  if (groups == 1 || !is_last_block(sums.tickets + groups, groups, room)) return;
  for (std::int64_t column = threadIdx.x; column < length; column += blockDim.x)
    put(column, column_sum(sums.groups + column, groups, length));
}

/** fused_backward_kernel for rows of packs of T, with a weight of W; it `adds` the sum's other
 *  gradient. A thread holds its part of a row, without g if it adds, for want of registers. Without
 *  chunks there are no sums for weight and bias. */
template <class T, class W, bool adds>
__global__ void __launch_bounds__(kTeamThreads, 2)
    packed_backward_kernel(const __grid_constant__ RowNormBackward norm, const Teams teams,
                           std::int64_t turns, const __grid_constant__ AffineSums affine) {
  constexpr int kWidth = kPerPack<T>;
  using Sums = GradientSums<float>;
  MZ_SHARED(Sums, room, kTeamThreads * kWidth);
  MZ_SHARED(int, last, 1);
  Sums sums[kHeldPacks][kWidth];
  const std::int64_t first = blockIdx.x * turns;
  for (std::int64_t turn = 0; turn < turns && (first + turn) * teams.slots < teams.rows; ++turn) {
    const Team team(teams, first + turn);
    const std::int64_t base = team.row * norm.rows.length;
    const RowStatistics<float> row(norm, team);
    const T *const x_row = static_cast<const T*>(norm.x.data) + base, *const g_row =
                                                                          static_cast<const T*>(
                                                                              norm.g.data) +
                                                                          base;
    auto packs = [&] {
      if constexpr (adds)
        return RowPacks<T, 1>(team, teams.packs, x_row);
      else
        return RowPacks<T, 2>(team, teams.packs, x_row, g_row);
    }();
    const auto weigh = [&](int at, const float* g, float* gw) {
#pragma unroll
      for (int k = 0; k < kWidth; ++k) gw[k] = g[k];
      if (!norm.weight.data) return;
      float weight[kWidth];
      load_values<kWidth>(static_cast<const W*>(norm.weight.data) + at, weight);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) gw[k] *= weight[k];
    };
    Sums own;
    packs.for_each([&](int j, int at, const auto& v) {
      float g[kWidth], gw[kWidth];
      if constexpr (adds)
        load_values<kWidth>(g_row + at, g);
      else
        copy_values<kWidth>(v[1], g);
      weigh(at, g, gw);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) {
        const float xh = row.normalised(v[0][k]);
        own = {own.g + gw[k], multiply_add(gw[k], xh, own.gx)};
        sums[j][k] = {sums[j][k].g + g[k], multiply_add(g[k], xh, sums[j][k].gx)};
      }
    });
    own = team.all(own, Plus{}, room);
    const float count = static_cast<float>(norm.rows.length),
                centre = norm.mean.data ? own.g / count : 0.0f, slope = own.gx / count;
    packs.for_each([&](int, int at, const auto& v) {
      float g[kWidth], gw[kWidth];
      if constexpr (adds)
        widen<T>(load_words(reinterpret_cast<const PackWords*>(g_row + at)), g);
      else
        copy_values<kWidth>(v[1], g);
      weigh(at, g, gw);
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        gw[k] = row.rstd * (gw[k] - multiply_add(row.normalised(v[0][k]), slope, centre));
      PackWords words = narrowed_words<T, kWidth>(gw);
      if constexpr (adds)
        words = sum_of<T>(words, load_words(reinterpret_cast<const PackWords*>(
                                     static_cast<const T*>(norm.rest.data) + base + at)));
      store_words(static_cast<T*>(norm.gx.data) + base + at, words);
    });
  }
  if (!affine.chunks) return;
  const int thread = static_cast<int>(threadIdx.x), columns = teams.lanes * kWidth;
  Sums* const partial = affine.chunks + blockIdx.x * norm.rows.length;
#pragma unroll
  for (int j = 0; j < kHeldPacks; ++j) {
    __syncthreads();  // the room may still be read
#pragma unroll
    for (int k = 0; k < kWidth; ++k) room[thread * kWidth + k] = sums[j][k];
    __syncthreads();
#pragma unroll 1
    for (int column = thread; column < columns; column += static_cast<int>(blockDim.x)) {
      Sums sum;
#pragma unroll 1
      for (int slot = 0; slot < teams.slots; ++slot) sum = sum + room[slot * columns + column];
      if (j * columns + column < norm.rows.length) partial[j * columns + column] = sum;
    }
  }
  join_affine(affine, norm.rows.length, last);
}

/** Computes only the sums of a chunk of rows. Lines are the columns. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    affine_sums_kernel(const __grid_constant__ RowNormBackward norm,
                       const __grid_constant__ Lines columns, const Pieces chunks,
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
    join_affine_kernel(const __grid_constant__ Lines chunks, const GradientSums<C>* partial,
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
    launch(&row_norm_backward_kernel<C>, grid_of(rows), stream, norm);
    launch(&affine_sums_kernel<C>, pieces.grid(columns), stream, norm, columns, pieces, partial);
  });
}

/** Returns the dtype of weight and bias; that of x if there are none. */
template <class Norm> DType affine_dtype(const Norm& norm) {
  return norm.weight.data ? norm.weight.dtype : norm.x.dtype;
}

/** Writes a + b to `out`, which may be one of them. */
void add_into(const Tensor& a, const Tensor& b, Tensor& out) {
  const Tensor in[] = {a, b};
  constexpr op::Add::Attrs attrs;
  static const OpInfo& info = *find_op(op::Add::traits.name);
  info.kernel[static_cast<std::size_t>(DeviceKind::cuda)](info, Inputs(in), {&out, 1}, &attrs);
}

/** Launches the kernel of packs. */
template <bool centred, bool adds>
void packed_forward(const RowNorm& norm, runtime::Stream stream) {
  visit_packed(norm.x.dtype, affine_dtype(norm),
               [&]<class T, class W>(std::type_identity<T>, std::type_identity<W>) {
                 const Teams teams(norm.rows.count, norm.rows.length, norm.x.dtype);
                 launch(&packed_norm_kernel<T, W, centred, adds>, teams.grid(), stream, norm,
                        teams);
               });
}

template <bool centred>
void forward(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& y,
             const Tensor& mean, const Tensor& rstd, const op::RowNormAttrs& attrs) {
  const Tensor x = row_major(input);
  const Tensor w = row_major(weight), b = row_major(bias);
  const RowNorm norm{trailing_lines(x.shape(), attrs.dims.rank()),
                     Array(x),
                     Array(w),
                     Array(b),
                     Array(y),
                     Array(mean),
                     Array(rstd),
                     attrs.eps};
  const runtime::Stream stream = current_stream(x.device());
  if (have_packs(norm.rows.length, {norm.x, norm.y}, {norm.weight, norm.bias}))
    return packed_forward<centred, false>(norm, stream);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&row_norm_kernel<C, centred>, grid_of(norm.rows), stream, norm);
  });
}

void layer_norm(Inputs in, Outputs out, const op::RowNormAttrs& attrs) {
  forward<true>(in[0], in[1], in[2], out[0], out[1], out[2], attrs);
}

void add_layer_norm(Inputs in, Outputs out, const op::RowNormAttrs& attrs) {
  const Tensor x = row_major(in[0]), branch = row_major(in[1]);
  const Tensor weight = row_major(in[2]), bias = row_major(in[3]);
  const RowNorm norm{trailing_lines(x.shape(), attrs.dims.rank()),
                     Array(x),
                     Array(weight),
                     Array(bias),
                     Array(out[1]),
                     Array(out[2]),
                     Array(out[3]),
                     attrs.eps,
                     Array(branch),
                     Array(out[0])};
  if (have_packs(norm.rows.length, {norm.x, norm.branch, norm.sum, norm.y},
                 {norm.weight, norm.bias}))
    return packed_forward<true, true>(norm, current_stream(x.device()));
  add_into(x, branch, out[0]);
  forward<true>(out[0], weight, bias, out[1], out[2], out[3], attrs);
}

void rms_norm(Inputs in, Outputs out, const op::RowNormAttrs& attrs) {
  forward<false>(in[0], in[1], {}, out[0], {}, out[1], attrs);
}

/** Launches packed_backward_kernel. */
template <bool adds>
void packed_backward(const RowNormBackward& norm, const Teams& teams, Device device, Outputs out,
                     bool wants_affine) {
  const std::int64_t turns = std::max<std::int64_t>(1, blocks_for(teams.blocks(), kPlenty));
  // One block writes the sums of no rows.
  const Grid grid{.blocks = std::max<std::int64_t>(blocks_for(teams.blocks(), turns), 1),
                  .threads = teams.threads()};
  AffineSums sums;
  Tensor room;
  if (wants_affine) {
    const std::int64_t groups = AffineSums::groups_of(grid.blocks), length = norm.rows.length;
    room = workspace(
        (grid.blocks + groups) * length * static_cast<std::int64_t>(sizeof(GradientSums<float>)),
        device);
    auto* const chunks = static_cast<GradientSums<float>*>(room.raw_data());
    sums = {chunks, chunks + grid.blocks * length, tickets(device), Array(out[1]), Array(out[2])};
  }
  visit_packed(norm.x.dtype, affine_dtype(norm),
               [&]<class T, class W>(std::type_identity<T>, std::type_identity<W>) {
                 launch(&packed_backward_kernel<T, W, adds>, grid, current_stream(device), norm,
                        teams, turns, sums);
               });
}

/** Computes the gradients; adds `rest`, if given, to that of x. */
void differentiate(Inputs in, Outputs out, const op::LayerNormBackward::Attrs& attrs,
                   const Tensor& rest) {
  const Tensor g = row_major(in[0]), x = row_major(in[1]), rstd = row_major(in[4]);
  const Tensor weight = row_major(in[2]);
  const Tensor mean = row_major(in[3]), other = row_major(rest);
  const RowNormBackward norm{trailing_lines(x.shape(), attrs.dims.rank()),
                             Array(g),
                             Array(x),
                             Array(weight),
                             Array(mean),
                             Array(rstd),
                             Array(out[0]),
                             Array(other)};
  const Device device = x.device();
  if (have_packs(norm.rows.length, {norm.g, norm.x, norm.gx, norm.rest}, {norm.weight})) {
    const Teams teams(norm.rows.count, norm.rows.length, norm.x.dtype);
    if (teams.hold_rows())
      return rest.defined() ? packed_backward<true>(norm, teams, device, out, attrs.wants_affine)
                            : packed_backward<false>(norm, teams, device, out, attrs.wants_affine);
  }
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    if (attrs.wants_affine) return backward_of_all<C>(norm, device, out);
    if (x.numel() > 0)
      launch(&row_norm_backward_kernel<C>, grid_of(norm.rows), current_stream(device), norm);
  });
  if (rest.defined()) add_into(out[0], other, out[0]);
}

void backward(Inputs in, Outputs out, const op::LayerNormBackward::Attrs& attrs) {
  differentiate(in, out, attrs, {});
}

void add_layer_norm_backward(Inputs in, Outputs out, const op::LayerNormBackward::Attrs& attrs) {
  differentiate(in.first(5), out, attrs, in[5]);
}

}  // namespace

void attach_layer_norm() {
  attach<op::AddLayerNorm, add_layer_norm>();
  attach<op::AddLayerNormBackward, add_layer_norm_backward>();
  attach<op::LayerNorm, layer_norm>();
  attach<op::LayerNormBackward, backward>();
  attach<op::RmsNorm, rms_norm>();
}

}  // namespace mezzo::gpu
