// The CUDA kernels of softmax, log_softmax and their gradients. The threads of a line load it once
// per pass.
#include "../../tensor/ops/softmax.h"

#include "../../tensor/cpu/softmax_line.h"
#include "../attach.h"
#include "lines.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Greater;
using cpu_kernels::lowest;
using cpu_kernels::Plus;
using cpu_kernels::shifted_exp;

template <class C, bool is_log>
__global__ void __launch_bounds__(kSpreadThreads)
    softmax_kernel(const __grid_constant__ Lines lines, const Array x, const Array y) {
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
    softmax_backward_kernel(const __grid_constant__ Lines lines, const Array g, const Array y,
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

template <bool is_log> void forward(Inputs in, Outputs out, const op::DimAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(in[0]);
  const Lines lines = lines_along(x.shape(), attrs.dim);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&softmax_kernel<C, is_log>, grid_of(lines), current_stream(x.device()), lines, Array(x),
           Array(out[0]));
  });
}

template <bool is_log> void backward(Inputs in, Outputs out, const op::DimAttrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor g = row_major(in[0]), y = row_major(in[1]);
  const Lines lines = lines_along(y.shape(), attrs.dim);
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&softmax_backward_kernel<C, is_log>, grid_of(lines), current_stream(y.device()), lines,
           Array(g), Array(y), Array(out[0]));
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
