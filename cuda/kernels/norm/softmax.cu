// The CUDA kernels of softmax, log_softmax and their gradients: for rows of packs, and for lines of
// any layout, whose threads load it once per pass.
#include "../../../tensor/ops/norm/softmax.h"

#include "../../../tensor/ops/norm/softmax_line_cpu.h"
#include "../../attach.h"
#include "../max_sum.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Greater;
using cpu_kernels::lowest;
using cpu_kernels::Plus;
using cpu_kernels::shifted_exp;

template <class C, bool is_log>
__global__ void __launch_bounds__(kSpreadThreads)
    softmax_kernel(const Lines __grid_constant__ lines, const Array x, const Array y) {
  MZ_SHARED(C, room, kSpreadThreads);
  const LineWalk walk(lines);
  const auto value = [&](std::int64_t place, std::int64_t) { return x.load<C>(place); };
  const C max = walk.fold(room, lowest<C>(), Greater{}, value);
  const C sum = walk.fold(room, C(0), Plus{}, [&](std::int64_t place, std::int64_t) {
    return shifted_exp(x.load<C>(place) - max);
  });
  const C last = is_log ? math::log(sum) : C(1) / sum;
  walk.for_each([&](std::int64_t place, std::int64_t) {
    const C shifted = x.load<C>(place) - max;
    y.store<C>(place, is_log ? shifted - last : shifted_exp(shifted) * last);
  });
}

/** Computes y (g - sum(g y)) for softmax and g - exp(y) sum(g) for log_softmax. */
template <class C, bool is_log>
__global__ void __launch_bounds__(kSpreadThreads)
    softmax_backward_kernel(const Lines __grid_constant__ lines, const Array g, const Array y,
                            const Array gx) {
  MZ_SHARED(C, room, kSpreadThreads);
  const LineWalk walk(lines);
  const C total = walk.fold(room, C(0), Plus{}, [&](std::int64_t place, std::int64_t) {
    return is_log ? g.load<C>(place) : g.load<C>(place) * y.load<C>(place);
  });
  walk.for_each([&](std::int64_t place, std::int64_t) {
    const C gv = g.load<C>(place), yv = y.load<C>(place);
    gx.store<C>(place, is_log ? gv - shifted_exp(yv) * total : yv * (gv - total));
  });
}

/** softmax_kernel for rows of packs of T. */
template <class T, bool is_log>
__global__ void __launch_bounds__(kTeamThreads)
    packed_softmax_kernel(const Teams teams, const T* x, T* y) {
  constexpr int kWidth = kPerPack<T>;
  MZ_SHARED(float, room, kTeamWarps);
  const Team team(teams);
  const std::int64_t base = team.row * teams.packs * kWidth;
  RowPacks<T, 1> row(team, teams.packs, x + base);
  MaxSum<T> state;
  row.for_each([&](int, int, const float(&v)[1][kWidth]) { state.add(v[0]); });
  state = state.of_all(team, room);
  const float last = is_log ? math::log(state.sum) : 1.0f / state.sum;
  row.for_each([&](int, int at, const float(&v)[1][kWidth]) {
    float result[kWidth];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      const float shifted = v[0][k] - state.max;
      result[k] = is_log ? shifted - last : packed_exp<T>(shifted) * last;
    }
    store_values<kWidth>(y + base + at, result);
  });
}

/** softmax_backward_kernel for rows of packs of T. */
template <class T, bool is_log>
__global__ void __launch_bounds__(kTeamThreads)
    packed_softmax_backward_kernel(const Teams teams, const T* g, const T* y, T* gx) {
  constexpr int kWidth = kPerPack<T>;
  MZ_SHARED(float, room, kTeamWarps);
  const Team team(teams);
  const std::int64_t base = team.row * teams.packs * kWidth;
  RowPacks<T, 2> rows(team, teams.packs, g + base, y + base);
  float total = 0;
  rows.for_each([&](int, int, const float(&v)[2][kWidth]) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      total = is_log ? total + v[0][k] : math::detail::multiply_add(v[0][k], v[1][k], total);
  });
  total = team.all(total, Plus{}, room);
  rows.for_each([&](int, int at, const float(&v)[2][kWidth]) {
    float result[kWidth];
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      result[k] = is_log ? v[0][k] - packed_exp<T>(v[1][k]) * total : v[1][k] * (v[0][k] - total);
    store_values<kWidth>(gx + base + at, result);
  });
}

template <bool is_log> void forward(Inputs in, Outputs out, const op::DimAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(in[0]);
  const Lines lines = lines_along(x.shape(), attrs.dim);
  const runtime::Stream stream = current_stream(x.device());
  if (lines.inner == 1 && have_packs(lines.length, {Array(x), Array(out[0])}))
    return visit_packed(x.dtype(), [&]<class T>(std::type_identity<T>) {
      const Teams teams(lines.count, lines.length, x.dtype());
      launch(&packed_softmax_kernel<T, is_log>, teams.grid(), stream, teams, x.template data<T>(),
             out[0].template data<T>());
    });
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&softmax_kernel<C, is_log>, grid_of(lines), stream, lines, Array(x), Array(out[0]));
  });
}

template <bool is_log> void backward(Inputs in, Outputs out, const op::DimAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor g = row_major(in[0]), y = row_major(in[1]);
  const Lines lines = lines_along(y.shape(), attrs.dim);
  const runtime::Stream stream = current_stream(y.device());
  if (lines.inner == 1 && have_packs(lines.length, {Array(y), Array(g), Array(out[0])}))
    return visit_packed(y.dtype(), [&]<class T>(std::type_identity<T>) {
      const Teams teams(lines.count, lines.length, y.dtype());
      launch(&packed_softmax_backward_kernel<T, is_log>, teams.grid(), stream, teams,
             g.template data<T>(), y.template data<T>(), out[0].template data<T>());
    });
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&softmax_backward_kernel<C, is_log>, grid_of(lines), stream, lines, Array(g), Array(y),
           Array(out[0]));
  });
}

}  // namespace

void attach_softmax() {
  attach<op::LogSoftmax, forward<true>>();
  attach<op::LogSoftmaxBackward, backward<true>>();
  attach<op::Softmax, forward<false>>();
  attach<op::SoftmaxBackward, backward<false>>();
}

}  // namespace mezzo::gpu
