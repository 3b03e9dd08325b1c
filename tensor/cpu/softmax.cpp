// Kernels of softmax, log_softmax and their gradients.
#include "../ops/softmax.h"

#include "line_map.h"
#include "softmax_line.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

template <class C> void softmax_line(const C* const* in, C* y, std::int64_t n) {
  const C* x = in[0];
  const C scale = C(1) / line_exp(x, line_max(x, n), y, n);
  for (std::int64_t i = 0; i < n; ++i) y[i] *= scale;
}

template <class C> void log_softmax_line(const C* const* in, C* y, std::int64_t n) {
  const C* x = in[0];
  const C max = line_max(x, n);
  const C log_sum = math::log(line_exp_sum(x, max, n));
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] - max - log_sum;
}

template <class C> void softmax_backward_line(const C* const* in, C* gx, std::int64_t n) {
  const C *g = in[0], *y = in[1];
  for (std::int64_t i = 0; i < n; ++i) gx[i] = g[i] * y[i];
  const C total = line_sum(gx, n);
  for (std::int64_t i = 0; i < n; ++i) gx[i] = y[i] * (g[i] - total);
}

template <class C> void log_softmax_backward_line(const C* const* in, C* gx, std::int64_t n) {
  const C *g = in[0], *y = in[1];
  const C total = line_sum(g, n);
  for (std::int64_t i = 0; i < n; ++i) gx[i] = g[i] - math::exp(y[i]) * total;
}

}  // namespace

namespace op {

void LogSoftmax::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    map_lines<C, 1>({row_major(in[0])}, out[0], attrs.dim, log_softmax_line<C>, 1);
  });
}

void LogSoftmaxBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    map_lines<C, 2>({row_major(in[0]), row_major(in[1])}, out[0], attrs.dim, log_softmax_backward_line<C>, 1);
  });
}

void Softmax::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    map_lines<C, 1>({row_major(in[0])}, out[0], attrs.dim, softmax_line<C>, 1);
  });
}

void SoftmaxBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    map_lines<C, 2>({row_major(in[0]), row_major(in[1])}, out[0], attrs.dim, softmax_backward_line<C>, 0.5);
  });
}

}  // namespace op

}  // namespace mezzo
