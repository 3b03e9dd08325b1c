// Kernels of softmax, log_softmax and their gradients.
#include "softmax.h"

#include "../../cpu/elementwise_kernel.h"
#include "../../cpu/line_map.h"
#include "softmax_line_cpu.h"

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
  for (std::int64_t i = 0; i < n; ++i) gx[i] = g[i] - shifted_exp(y[i]) * total;
}

// The same for `width` lines at once; element i of line j is at [i * stride + j].

/** Sums columns in parts of 128 rows; errors grow with the number of parts rather than the number
 *  of rows. */
template <class C, class Term>
void column_sums(std::int64_t n, std::int64_t width, C* total, Term term) {
  alignas(64) C part[kLineColumns];
  std::fill(total, total + width, C(0));
  for (std::int64_t first = 0; first < n; first += 128) {
    std::fill(part, part + width, C(0));
    for (std::int64_t i = first; i < std::min(first + 128, n); ++i) {
      MZ_INDEPENDENT_LOOP
      for (std::int64_t j = 0; j < width; ++j) part[j] += term(i, j);
    }
    for (std::int64_t j = 0; j < width; ++j) total[j] += part[j];
  }
}

template <class C>
void column_max(const C* x, std::int64_t n, std::int64_t stride, std::int64_t width, C* max) {
  std::fill(max, max + width, lowest<C>());
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < width; ++j) max[j] = kGreater(max[j], x[i * stride + j]);
}

/** Calls f(position, j) for all elements. */
template <class F>
void for_each_at(std::int64_t n, std::int64_t stride, std::int64_t width, F&& f) {
  for (std::int64_t i = 0; i < n; ++i) {
    MZ_INDEPENDENT_LOOP
    for (std::int64_t j = 0; j < width; ++j) f(i * stride + j, j);
  }
}

template <class C>
void softmax_columns(const C* const* in, C* y, std::int64_t n, std::int64_t stride,
                     std::int64_t width) {
  const C* x = in[0];
  alignas(64) C max[kLineColumns], scale[kLineColumns];
  column_max(x, n, stride, width, max);
  column_sums(n, width, scale, [&](std::int64_t i, std::int64_t j) {
    return y[i * stride + j] = shifted_exp(x[i * stride + j] - max[j]);
  });
  for (std::int64_t j = 0; j < width; ++j) scale[j] = C(1) / scale[j];
  for_each_at(n, stride, width, [&](std::int64_t at, std::int64_t j) { y[at] *= scale[j]; });
}

template <class C>
void log_softmax_columns(const C* const* in, C* y, std::int64_t n, std::int64_t stride,
                         std::int64_t width) {
  const C* x = in[0];
  alignas(64) C max[kLineColumns], log_sum[kLineColumns];
  column_max(x, n, stride, width, max);
  column_sums(n, width, log_sum, [&](std::int64_t i, std::int64_t j) {
    return shifted_exp(x[i * stride + j] - max[j]);
  });
  for (std::int64_t j = 0; j < width; ++j) log_sum[j] = math::log(log_sum[j]);
  for_each_at(n, stride, width,
              [&](std::int64_t at, std::int64_t j) { y[at] = x[at] - max[j] - log_sum[j]; });
}

template <class C>
void softmax_backward_columns(const C* const* in, C* gx, std::int64_t n, std::int64_t stride,
                              std::int64_t width) {
  const C *g = in[0], *y = in[1];
  alignas(64) C total[kLineColumns];
  column_sums(n, width, total, [&](std::int64_t i, std::int64_t j) {
    return g[i * stride + j] * y[i * stride + j];
  });
  for_each_at(n, stride, width,
              [&](std::int64_t at, std::int64_t j) { gx[at] = y[at] * (g[at] - total[j]); });
}

template <class C>
void log_softmax_backward_columns(const C* const* in, C* gx, std::int64_t n, std::int64_t stride,
                                  std::int64_t width) {
  const C *g = in[0], *y = in[1];
  alignas(64) C total[kLineColumns];
  column_sums(n, width, total, [&](std::int64_t i, std::int64_t j) { return g[i * stride + j]; });
  for_each_at(n, stride, width, [&](std::int64_t at, std::int64_t j) {
    gx[at] = g[at] - shifted_exp(y[at]) * total[j];
  });
}

}  // namespace

namespace op {

void LogSoftmax::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    map_lines_or_columns<C, 1>({row_major(in[0])}, out[0], attrs.dim, log_softmax_line<C>,
                               log_softmax_columns<C>, 1);
  });
}

void LogSoftmaxBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    map_lines_or_columns<C, 2>({row_major(in[0]), row_major(in[1])}, out[0], attrs.dim,
                               log_softmax_backward_line<C>, log_softmax_backward_columns<C>, 1);
  });
}

void Softmax::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    map_lines_or_columns<C, 1>({row_major(in[0])}, out[0], attrs.dim, softmax_line<C>,
                               softmax_columns<C>, 1);
  });
}

void SoftmaxBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(out[0].dtype(), [&]<class C>(std::type_identity<C>) {
    map_lines_or_columns<C, 2>({row_major(in[0]), row_major(in[1])}, out[0], attrs.dim,
                               softmax_backward_line<C>, softmax_backward_columns<C>, 0.5);
  });
}

}  // namespace op

}  // namespace mezzo
