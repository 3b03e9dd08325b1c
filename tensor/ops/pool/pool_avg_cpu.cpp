// Kernels of mean pooling and its gradient.
#include "../../math/safe_sum.h"
#include "pool_planes_cpu.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** Returns the divisor of the sum over a window. */
template <class C>
C divisor(const PoolAttrs& attrs, const PoolSpan& d, const PoolSpan& h, const PoolSpan& c) {
  return static_cast<C>(attrs.divisor > 0 ? attrs.divisor : d.counted * h.counted * c.counted);
}

/** Returns the mean of a window whose sum overflowed. */
template <class C>
[[gnu::noinline]] C scaled_mean(const Windows& w, const C* x, const PoolSpan& d, const PoolSpan& h,
                                const PoolSpan& c) {
  constexpr C kScale = static_cast<C>(0x1p-60);
  C sum = 0;
  for (std::int64_t i = d.begin; i < d.end; ++i)
    for (std::int64_t j = h.begin; j < h.end; ++j)
      for (std::int64_t k = c.begin; k < c.end; ++k)
        sum += x[(i * w.in[1] + j) * w.in[2] + k] * kScale;
  return sum / divisor<C>(w.attrs, d, h, c) / kScale;
}

/** Sums the rows of a window first, for all windows in parallel, then the columns. `line` is
 *  scratch for one row. */
template <class C> void mean_plane(const Windows& w, const C* x, C* y, C* line) {
  const std::int64_t width = w.in[2];
  for (const PoolSpan& d : w.spans[0])
    for (const PoolSpan& h : w.spans[1]) {
      std::fill(line, line + width, C(0));
      for (std::int64_t i = d.begin; i < d.end; ++i)
        for (std::int64_t j = h.begin; j < h.end; ++j) {
          const C* const row = x + (i * w.in[1] + j) * width;
          for (std::int64_t k = 0; k < width; ++k) line[k] += row[k];
        }
      for (const PoolSpan& c : w.spans[2]) {
        C sum = 0;
        for (std::int64_t k = c.begin; k < c.end; ++k) sum += line[k];
        *y++ =
            math::is_finite(sum) ? sum / divisor<C>(w.attrs, d, h, c) : scaled_mean(w, x, d, h, c);
      }
    }
}

/** The adjoint: spreads a row of windows over one line, then adds the line to every row of the
 *  windows. */
template <class C> void mean_plane_backward(const Windows& w, const C* g, C* dx, C* line) {
  const std::int64_t width = w.in[2];
  std::fill(dx, dx + volume(w.in), C(0));
  for (const PoolSpan& d : w.spans[0])
    for (const PoolSpan& h : w.spans[1]) {
      std::fill(line, line + width, C(0));
      for (const PoolSpan& c : w.spans[2]) {
        const C share = *g++ / divisor<C>(w.attrs, d, h, c);
        for (std::int64_t k = c.begin; k < c.end; ++k) line[k] += share;
      }
      for (std::int64_t i = d.begin; i < d.end; ++i)
        for (std::int64_t j = h.begin; j < h.end; ++j) {
          C* const row = dx + (i * w.in[1] + j) * width;
          for (std::int64_t k = 0; k < width; ++k) row[k] += line[k];
        }
    }
}

void mean_pool(int rank, const Tensor& input, const Tensor& y, const PoolAttrs& attrs) {
  if (y.numel() == 0) return;
  const Tensor x = row_major(input);
  const Windows w(attrs, pooled_dims(x.shape(), rank), pooled_dims(y.shape(), rank));
  const std::int64_t in = volume(w.in), out = volume(w.out);
  visit_floating(x.dtype(), [&]<class T>(std::type_identity<T>) {
    using C = ComputeOf<T>;
    const Planes<T> planes{x.numel() / in, x.data<T>(), in, y.data<T>(), out, w.in[2]};
    for_each_plane(
        planes, 0.5 * static_cast<double>(in + out),
        [&](const C* from, C* to, C* line, std::int64_t) { mean_plane(w, from, to, line); });
  });
}

void mean_pool_backward(int rank, const Tensor& gradient, const Tensor& dx,
                        const PoolAttrs& attrs) {
  if (dx.numel() == 0) return;
  const Tensor g = row_major(gradient);
  const Windows w(attrs, pooled_dims(dx.shape(), rank), pooled_dims(g.shape(), rank));
  const std::int64_t in = volume(w.in), out = volume(w.out);
  visit_floating(g.dtype(), [&]<class T>(std::type_identity<T>) {
    using C = ComputeOf<T>;
    const Planes<T> planes{dx.numel() / in, g.data<T>(), out, dx.data<T>(), in, w.in[2]};
    for_each_plane(planes, 0.5 * static_cast<double>(in + out),
                   [&](const C* from, C* to, C* line, std::int64_t) {
                     mean_plane_backward(w, from, to, line);
                   });
  });
}

}  // namespace

template <int N> void AvgPool<N>::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  with_row_major(out[0], [&](const Tensor& y) { mean_pool(N, in[0], y, attrs); });
}
template <int N> void AdaptiveAvgPool<N>::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  with_row_major(out[0], [&](const Tensor& y) { mean_pool(N, in[0], y, attrs); });
}
template <int N> void AvgPoolBackward<N>::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  with_row_major(out[0],
                 [&](const Tensor& dx) { mean_pool_backward(N, in[0], dx, attrs.windows); });
}

#define MZ_AVG_POOL_KERNELS(N)                                              \
  template void AvgPool<N>::cpu(Inputs, Outputs, const PoolAttrs&);         \
  template void AdaptiveAvgPool<N>::cpu(Inputs, Outputs, const PoolAttrs&); \
  template void AvgPoolBackward<N>::cpu(Inputs, Outputs, const AvgPoolBackward<N>::Attrs&);
MZ_AVG_POOL_KERNELS(1)
MZ_AVG_POOL_KERNELS(2)
MZ_AVG_POOL_KERNELS(3)
#undef MZ_AVG_POOL_KERNELS

}  // namespace mezzo::op
