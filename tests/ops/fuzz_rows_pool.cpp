// Rows of the pooling ops.
#include "fuzz_windows.h"

using namespace fuzz;
using namespace mezzo;

namespace {

struct PoolArguments {
  Tensor x;
  std::vector<std::int64_t> kernel, stride, padding, dilation;
  bool ceil_mode;
};

PoolArguments pool_arguments(Draw& d, int dims) {
  PoolArguments a;
  a.x = image(d, dims);
  a.kernel = window(d, dims, 1, 3);
  if (d.flag()) a.stride = window(d, dims, 1, 3);
  a.padding = d.flag() ? window(d, dims, 0, 1) : std::vector<std::int64_t>{0};
  a.dilation = d.flag() ? window(d, dims, 1, 2) : std::vector<std::int64_t>{1};
  a.ceil_mode = d.flag();
  return a;
}

/** Returns the pooled shape, or nothing. */
Expected pooled(const PoolArguments& a, int dims, bool pairs) {
  const Sizes x = sizes(a.x);
  const auto spatial = static_cast<std::size_t>(dims);
  if (x.size() != spatial + 1 && x.size() != spatial + 2) return refused();
  Sizes shape = x;
  for (int i = 0; i < dims; ++i) {
    const auto kernel = at(a.kernel, dims, i),
               stride = at(a.stride.empty() ? a.kernel : a.stride, dims, i),
               padding = at(a.padding, dims, i), dilation = at(a.dilation, dims, i);
    if (!kernel || !stride || !padding || !dilation || *kernel < 1 || *stride < 1 ||
        *dilation < 1 || *padding < 0)
      return refused();
    const std::size_t d = x.size() - spatial + static_cast<std::size_t>(i);
    const Wide room = x[d] + 2 * *padding - *dilation * (*kernel - 1) - 1;
    // Rounded up, the last window must start inside the input or the left padding.
    Wide places = room < 0 ? 0 : room / *stride + 1;
    if (a.ceil_mode && room + *stride - 1 >= 0) {
      places = (room + *stride - 1) / *stride + 1;
      if ((places - 1) * *stride >= x[d] + *padding) --places;
    }
    if (places < 1) return refused();
    shape[d] = places;
  }
  return pairs ? gives_both(shape) : gives(shape);
}

using MaxPool = ValuesAndIndices (*)(const Tensor&, const WindowSizes&, const MaxPoolOptions&);
using MaxValues = Tensor (*)(const Tensor&, const WindowSizes&, const MaxPoolOptions&);
using AvgPool = Tensor (*)(const Tensor&, const WindowSizes&, const AvgPoolOptions&);
using LpPool = Tensor (*)(const Tensor&, double, const WindowSizes&, const LpPoolOptions&);

template <int N, MaxPool f> Trial max_pool(Draw& d) {
  const PoolArguments a = pool_arguments(d, N);
  return {[=] {
            return list(
                f(a.x, as_window(a.kernel),
                  {as_window(a.stride), as_window(a.padding), as_window(a.dilation), a.ceil_mode}));
          },
          pooled(a, N, true)};
}

template <int N, MaxValues f> Trial max_values(Draw& d) {
  const PoolArguments a = pool_arguments(d, N);
  return {[=] {
            return list(
                f(a.x, as_window(a.kernel),
                  {as_window(a.stride), as_window(a.padding), as_window(a.dilation), a.ceil_mode}));
          },
          pooled(a, N, false)};
}

template <int N, AvgPool f> Trial avg_pool(Draw& d) {
  PoolArguments a = pool_arguments(d, N);
  a.dilation = {1};
  AvgPoolOptions options{as_window(a.stride), 0, a.ceil_mode, d.flag(), {}};
  if (d.flag()) options.divisor_override = d.number(0, 4);
  return {[=] {
            AvgPoolOptions all = options;
            all.padding = as_window(a.padding);
            return list(f(a.x, as_window(a.kernel), all));
          },
          pooled(a, N, false)};
}

template <int N, LpPool f> Trial lp_pool(Draw& d) {
  PoolArguments a = pool_arguments(d, N);
  a.dilation = {1};
  a.padding = {0};
  const double p = d.real(-0.5, 3);
  return {[=] {
            return list(f(a.x, p, as_window(a.kernel), {as_window(a.stride), a.ceil_mode}));
          },
          pooled(a, N, false)};
}

template <int N>
Expected adaptive(const Tensor& x, const std::vector<std::int64_t>& output, bool pairs) {
  if (x.dim() != N + 1 && x.dim() != N + 2) return refused();
  Sizes shape = sizes(x);
  for (int i = 0; i < N; ++i) {
    const auto size = at(output, N, i);
    if (!size || *size < 1) return refused();
    shape[shape.size() - N + static_cast<std::size_t>(i)] = *size;
  }
  return pairs ? gives_both(shape) : gives(shape);
}

template <int N, Tensor (*f)(const Tensor&, const WindowSizes&)> Trial adaptive_avg(Draw& d) {
  const Tensor x = image(d, N);
  const std::vector<std::int64_t> output = window(d, N, 1, 4);
  return {[=] { return list(f(x, as_window(output))); }, adaptive<N>(x, output, false)};
}

template <int N, ValuesAndIndices (*f)(const Tensor&, const WindowSizes&)>
Trial adaptive_max(Draw& d) {
  const Tensor x = image(d, N);
  const std::vector<std::int64_t> output = window(d, N, 1, 4);
  return {[=] { return list(f(x, as_window(output))); }, adaptive<N>(x, output, true)};
}

using Unpool = Tensor (*)(const Tensor&, const Tensor&, const WindowSizes&,
                          const MaxUnpoolOptions&);

template <int N, Unpool f> Trial max_unpool(Draw& d) {
  const Tensor x = image(d, N);
  const std::vector<std::int64_t> kernel = window(d, N, 1, 3),
                                  padding{d.flag() ? 0 : d.number(0, 1)};
  const std::vector<std::int64_t> stride =
                                      d.flag() ? window(d, N, 1, 3) : std::vector<std::int64_t>{},
                                  output = d.chance(0.3) ? window(d, N, 3, 9)
                                                         : std::vector<std::int64_t>{};
  const Tensor places = d.index(x.shape(), 2);
  Expected expected = refused();
  if (x.dim() == N + 1 || x.dim() == N + 2) {
    Sizes shape = sizes(x);
    bool fits = true;
    for (int i = 0; i < N; ++i) {
      Wide& size = shape[shape.size() - N + static_cast<std::size_t>(i)];
      const auto k = at(kernel, N, i), s = at(stride.empty() ? kernel : stride, N, i),
                 p = at(padding, N, i),
                 given = output.empty() ? std::optional<Wide>(0) : at(output, N, i);
      fits = fits && k && s && p && given;
      if (fits) size = output.empty() ? (size - 1) * *s - 2 * *p + *k : *given;
      fits = fits && size >= 1;
    }
    if (fits) expected = gives(shape);
  }
  return {[=] {
            return list(f(x, places, as_window(kernel),
                          {as_window(stride), as_window(padding), as_window(output)}));
          },
          expected};
}

const Rows pools([] {
  add_row("max_pool1d", max_pool<1, max_pool1d_with_indices>);
  add_row("max_pool2d", max_pool<2, max_pool2d_with_indices>);
  add_row("max_pool3d", max_pool<3, max_pool3d_with_indices>);
  add_row("max_pool1d", max_values<1, max_pool1d>);
  add_row("max_pool2d", max_values<2, max_pool2d>);
  add_row("max_pool3d", max_values<3, max_pool3d>);
  add_row("avg_pool1d", avg_pool<1, avg_pool1d>);
  add_row("avg_pool2d", avg_pool<2, avg_pool2d>);
  add_row("avg_pool3d", avg_pool<3, avg_pool3d>);
  add_row("lp_pool1d", lp_pool<1, lp_pool1d>);
  add_row("lp_pool2d", lp_pool<2, lp_pool2d>);
  add_row("lp_pool3d", lp_pool<3, lp_pool3d>);
  add_row("adaptive_avg_pool1d", adaptive_avg<1, adaptive_avg_pool1d>);
  add_row("adaptive_avg_pool2d", adaptive_avg<2, adaptive_avg_pool2d>);
  add_row("adaptive_avg_pool3d", adaptive_avg<3, adaptive_avg_pool3d>);
  add_row("adaptive_max_pool1d", adaptive_max<1, adaptive_max_pool1d_with_indices>);
  add_row("adaptive_max_pool2d", adaptive_max<2, adaptive_max_pool2d_with_indices>);
  add_row("adaptive_max_pool3d", adaptive_max<3, adaptive_max_pool3d_with_indices>);
  add_row("max_unpool1d", max_unpool<1, max_unpool1d>);
  add_row("max_unpool2d", max_unpool<2, max_unpool2d>);
  add_row("max_unpool3d", max_unpool<3, max_unpool3d>);
});

}  // namespace
