// The CUDA kernels of the gradients of layer_norm, also of a sum, and of rms_norm: of x for any
// layout, of all operands for packs.
//
// gx = rstd * (gw - mean(gw) - xh * mean(gw * xh)) per row, with gw = g * weight and xh the
// normalised x; without the first mean for rms_norm. If x is a sum, the gradient that the sum gets
// elsewhere is added to gx after its rounding.
#include <algorithm>

#include "../../../tensor/cpu/order.h"
#include "../../../tensor/ops/shape/copy.h"
#include "../../attach.h"
#include "layer_norm.h"
#include "layer_norm_affine.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Plus;
using math::detail::multiply_add;

/** Computes the gradient of x only. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    row_norm_backward_kernel(const RowNormBackward __grid_constant__ norm) {
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

/** fused_backward_kernel for rows of packs of T, with a weight of W and an incoming gradient of G,
 *  T or 16 bits; it `adds` the sum's other gradient. A thread holds its part of a row, without g if
 *  it adds, for want of registers, or if g is not of T, while the other gradient and the next row
 *  come into the cache. Without chunks there are no sums for weight and bias. */
template <class T, class W, bool adds, class G>
__global__ void __launch_bounds__(kTeamThreads, 2)
    packed_backward_kernel(const RowNormBackward __grid_constant__ norm, const Teams teams,
                           std::int64_t turns, const AffineSums __grid_constant__ affine) {
  constexpr int kWidth = kPerPack<T>;
  constexpr bool holds_g = !adds && std::is_same_v<G, T>;
  using Sums = GradientSums<float>;
  MZ_SHARED(Sums, room, kTeamThreads * kWidth);
  MZ_SHARED(int, last, 1);
  Sums sums[kHeldPacks][kWidth];
  const std::int64_t first = blockIdx.x * turns;
  for (std::int64_t turn = 0; turn < turns && (first + turn) * teams.slots < teams.rows; ++turn) {
    const Team team(teams, first + turn);
    const std::int64_t base = team.row * norm.rows.length;
    const RowStatistics<float> row(norm, team);
    const T* const x_row = static_cast<const T*>(norm.x.data) + base;
    const G* const g_row = static_cast<const G*>(norm.g.data) + base;
    if constexpr (adds)
      if (team.has_row)
        prefetch_row<kWidth>(team, teams.packs, static_cast<const T*>(norm.rest.data) + base);
    if (turn + 1 < turns && team.row + teams.slots < teams.rows) {
      const std::int64_t next = teams.slots * norm.rows.length;
      prefetch_row<kWidth>(team, teams.packs, x_row + next);
      prefetch_row<kWidth>(team, teams.packs, g_row + next);
    }
    auto packs = [&] {
      if constexpr (holds_g)
        return RowPacks<T, 2>(team, teams.packs, x_row, g_row);
      else
        return RowPacks<T, 1>(team, teams.packs, x_row);
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
      if constexpr (holds_g)
        copy_values<kWidth>(v[1], g);
      else
        widen_part<kWidth, G>(*reinterpret_cast<const WordsOf<G, kWidth>*>(g_row + at), g);
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
      if constexpr (holds_g)
        copy_values<kWidth>(v[1], g);
      else if constexpr (std::is_same_v<G, T>)
        widen<T>(load_words(reinterpret_cast<const PackWords*>(g_row + at)), g);
      else
        widen_part<kWidth, G>(*reinterpret_cast<const WordsOf<G, kWidth>*>(g_row + at), g);
      weigh(at, g, gw);
#pragma unroll
      for (int k = 0; k < kWidth; ++k)
        gw[k] = row.rstd * (gw[k] - multiply_add(row.normalised(v[0][k]), slope, centre));
      PackWords words = narrowed_words<T, kWidth>(gw);
      if constexpr (adds)
        words = sum_of<T, T>(words, load_words(reinterpret_cast<const PackWords*>(
                                        static_cast<const T*>(norm.rest.data) + base + at)));
      store_words(static_cast<T*>(norm.gx.data) + base + at, words);
      if constexpr (!std::is_same_v<G, T>)
        if (norm.low) {
          widen<T>(words, gw);
          store_values<kWidth>(static_cast<G*>(norm.low) + base + at, gw);
        }
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

/** Launches packed_backward_kernel. */
template <bool adds>
void packed_backward(const RowNormBackward& norm, const Teams& teams, Device device, Outputs out,
                     bool wants_affine) {
  // One wave: 512 threads of 128 registers fit on each of 132 multiprocessors.
  const std::int64_t wave = kPlenty / 4 * 512 / teams.threads(),
                     turns = std::max<std::int64_t>(1, blocks_for(teams.blocks(), wave));
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
  const auto run = [&]<class T, class W, class G>(std::type_identity<T>, std::type_identity<W>,
                                                  std::type_identity<G>) {
    launch(&packed_backward_kernel<T, W, adds, G>, grid, current_stream(device), norm, teams, turns,
           sums);
  };
  if (norm.g.dtype != norm.x.dtype) {
    const std::type_identity<float> wide{};
    if (norm.g.dtype == DType::f16) return run(wide, wide, std::type_identity<Half>{});
    return run(wide, wide, std::type_identity<BFloat16>{});
  }
  visit_packed(norm.x.dtype, affine_dtype(norm),
               [&](auto type, auto weight) { run(type, weight, type); });
}

/** Runs packed_backward_kernel, and returns true, if it takes the operands: rows of packs, with g
 * of their dtype, or of 16 bits if they are of f32. */
bool take_packs(const RowNormBackward& norm, Device device, Outputs out, bool wants_affine) {
  const bool widens = is_low(norm.g.dtype) && norm.x.dtype == DType::f32;
  const bool has_g = !widens || (reinterpret_cast<std::uintptr_t>(norm.g.data) % 16 == 0 &&
                                 affine_dtype(norm) == DType::f32);
  if (!has_g || !have_packs(norm.rows.length,
                            {norm.x, norm.gx, norm.rest, widens ? norm.x : norm.g}, {norm.weight}))
    return false;
  const Teams teams(norm.rows.count, norm.rows.length, norm.x.dtype);
  if (!teams.hold_rows()) return false;
  if (norm.rest.data)
    packed_backward<true>(norm, teams, device, out, wants_affine);
  else
    packed_backward<false>(norm, teams, device, out, wants_affine);
  return true;
}

/** Computes the gradients; adds `rest`, if given, to that of x. A fourth result, if there is one,
 *  is the gradient of x, rounded. */
void differentiate(Inputs in, Outputs out, const op::LayerNormBackward::Attrs& attrs,
                   const Tensor& rest) {
  const Tensor x = row_major(in[1]), weight = row_major(in[2]), mean = row_major(in[3]),
               rstd = row_major(in[4]), other = row_major(rest);
  const Device device = x.device();
  const auto operands = [&](const Tensor& g) {
    return RowNormBackward{trailing_lines(x.shape(), attrs.dims.rank()),
                           Array(g),
                           Array(x),
                           Array(weight),
                           Array(mean),
                           Array(rstd),
                           Array(out[0]),
                           Array(other)};
  };
  const bool rounds = out.size() > 3;
  // A gradient that is to be converted to f32 may be read as it is.
  if (const Tensor source = op::late_source(in[0]);
      source.dtype() != in[0].dtype() && source.is_contiguous()) {
    RowNormBackward norm = operands(source);
    const bool writes_low = rounds && out[3].dtype() == source.dtype();
    if (writes_low) norm.low = out[3].raw_data();
    if (take_packs(norm, device, out, attrs.wants_affine)) {
      if (rounds && !writes_low) op::convert_to(out[0], out[3]);
      return;
    }
  }
  const Tensor g = row_major(in[0]);
  const RowNormBackward norm = operands(g);
  if (!take_packs(norm, device, out, attrs.wants_affine)) {
    if (attrs.wants_affine)
      row_norm_gradients(norm, x.dtype(), device, out);
    else if (x.numel() > 0)
      row_norm_gradient(norm, x.dtype(), device);
    if (rest.defined()) add_into(out[0], other, out[0]);
  }
  if (rounds) op::convert_to(out[0], out[3]);
}

void backward(Inputs in, Outputs out, const op::LayerNormBackward::Attrs& attrs) {
  differentiate(in, out, attrs, {});
}

void add_layer_norm_backward(Inputs in, Outputs out, const op::LayerNormBackward::Attrs& attrs) {
  differentiate(in.first(5), out, attrs, in[5]);
}

}  // namespace

void row_norm_gradient(const RowNormBackward& norm, DType dtype, Device device) {
  visit_floating_compute(dtype, [&]<class C>(std::type_identity<C>) {
    launch(&row_norm_backward_kernel<C>, grid_of(norm.rows), current_stream(device), norm);
  });
}

void attach_layer_norm_backward() {
  attach<op::AddLayerNormBackward, add_layer_norm_backward>();
  attach<op::LayerNormBackward, backward>();
}

}  // namespace mezzo::gpu
