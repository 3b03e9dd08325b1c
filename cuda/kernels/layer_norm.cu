// The CUDA kernels of layer_norm, rms_norm and their gradient.
#include "../../tensor/ops/layer_norm.h"

#include "../../tensor/cpu/moments.h"
#include "../attach.h"
#include "lines.h"
#include "row.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Moments;
using cpu_kernels::Plus;

/** What the kernels are given: rows of x, one weight and bias per element of a row (or none), one mean (layer_norm alone) and rstd per row. */
struct RowNorm {
  Lines rows;
  Array x, weight, bias, y, mean, rstd;
  double eps = 0;
};

/** y = (x - mean) * rstd * weight + bias. */
template <class C, bool centred>
__global__ void __launch_bounds__(kSpreadThreads) row_norm_kernel(const __grid_constant__ RowNorm norm) {
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

struct RowNormBackward {
  Lines rows;
  Array g, x, weight, mean, rstd, gx, gw, gb;
};

/** The normalised element. */
template <class C>
__device__ C normalised(const RowNormBackward& norm, std::int64_t place, std::int64_t row) {
  return (norm.x.load<C>(place) - norm.mean.load_or(row, C(0))) * norm.rstd.load<C>(row);
}

/** gx = rstd * (gw - mean(gw) - xh * mean(gw * xh)) per row, gw = g * weight, xh the normalised x; without the first mean for rms_norm. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    row_norm_backward_kernel(const __grid_constant__ RowNormBackward norm) {
  MZ_SHARED(C, room, kSpreadThreads);
  const LineWalk walk(norm.rows);
  const C count = static_cast<C>(norm.rows.length);
  const auto weighted = [&](std::int64_t place, std::int64_t i) {
    return norm.g.load<C>(place) * norm.weight.load_or(i, C(1));
  };
  const C along = walk.fold(room, C(0), Plus{}, [&](std::int64_t place, std::int64_t i) {
    return weighted(place, i) * normalised<C>(norm, place, walk.line);
  }) / count;
  const C offset = walk.fold(room, C(0), Plus{}, weighted) / count;
  walk.for_each([&](std::int64_t place, std::int64_t i) {
    const C centre = norm.mean.data ? offset : C(0);
    const C gx = weighted(place, i) - centre - normalised<C>(norm, place, walk.line) * along;
    norm.gx.store<C>(place, norm.rstd.load<C>(walk.line) * gx);
  });
}

/** Gradients of weight and bias: sums over the rows, the lines here being the columns. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    affine_backward_kernel(const __grid_constant__ RowNormBackward norm,
                           const __grid_constant__ Lines columns) {
  MZ_SHARED(C, room, kSpreadThreads);
  const LineWalk walk(columns);
  const C gw = walk.fold(room, C(0), Plus{}, [&](std::int64_t place, std::int64_t row) {
    return norm.g.load<C>(place) * normalised<C>(norm, place, row);
  });
  const C gb =
      walk.fold(room, C(0), Plus{}, [&](std::int64_t place, std::int64_t) { return norm.g.load<C>(place); });
  if (!walk.is_first()) return;
  norm.gw.store<C>(walk.line, gw);
  norm.gb.store<C>(walk.line, gb);
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
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&row_norm_kernel<C, centred>, grid_of(norm.rows), current_stream(x.device()), norm);
  });
}

void layer_norm(Inputs in, Outputs out, const op::RowNormAttrs& attrs) {
  forward<true>(in[0], in[1], in[2], out[0], out[1], out[2], attrs);
}

void rms_norm(Inputs in, Outputs out, const op::RowNormAttrs& attrs) {
  forward<false>(in[0], in[1], {}, out[0], {}, out[1], attrs);
}

void backward(Inputs in, Outputs out, const op::RowNormAttrs& attrs) {
  const Tensor g = row_major(in[0]), x = row_major(in[1]), rstd = row_major(in[4]);
  const Tensor weight = row_major(in[2]);
  const Tensor mean = row_major(in[3]);
  const Lines rows = trailing_lines(x.shape(), attrs.dims.rank());
  const RowNormBackward norm{rows,        Array(g),      Array(x),      Array(weight), Array(mean),
                             Array(rstd), Array(out[0]), Array(out[1]), Array(out[2])};
  const Lines columns = lines_along({rows.count, rows.length}, 0);
  const runtime::Stream stream = current_stream(x.device());
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    if (x.numel() > 0) launch(&row_norm_backward_kernel<C>, grid_of(rows), stream, norm);
    launch(&affine_backward_kernel<C>, grid_of(columns), stream, norm, columns);
  });
}

}  // namespace

void attach_layer_norm() {
  attach<op::LayerNorm, layer_norm>();
  attach<op::LayerNormBackward, backward>();
  attach<op::RmsNorm, rms_norm>();
}

}  // namespace mezzo::gpu
