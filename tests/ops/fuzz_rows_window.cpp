// Rows of the ops with windows: convolutions, pooling, blocks, resizing, grids.
#include <algorithm>
#include <cmath>

#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

/** One number for all of `dims` dimensions, or one for each; at times a wrong number of them. */
std::vector<std::int64_t> window(Draw& d, int dims, std::int64_t low, std::int64_t high) {
  std::vector<std::int64_t> values;
  const std::int64_t n = d.flag() ? 1 : d.chance(0.05) ? 1 + d.below(3) : dims;
  for (std::int64_t i = 0; i < n; ++i) values.push_back(d.number(low, high));
  return values;
}

WindowSizes as_window(const std::vector<std::int64_t>& v) {
  if (v.empty()) return {};
  return v.size() == 1   ? WindowSizes{v[0]}
         : v.size() == 2 ? WindowSizes{v[0], v[1]}
                         : WindowSizes{v[0], v[1], v[2]};
}
ConvPadding as_padding(const std::vector<std::int64_t>& v) {
  return v.size() == 1   ? ConvPadding{v[0]}
         : v.size() == 2 ? ConvPadding{v[0], v[1]}
                         : ConvPadding{v[0], v[1], v[2]};
}

/** The number for dimension i; nothing where there is no such number. */
std::optional<Wide> at(const std::vector<std::int64_t>& v, int dims, int i) {
  if (v.size() == 1) return v[0];
  if (static_cast<int>(v.size()) != dims) return std::nullopt;
  return v[static_cast<std::size_t>(i)];
}

// ---- convolutions ------------------------------------------------------------------------------

struct ConvArguments {
  Tensor x, w, bias;
  std::vector<std::int64_t> stride, padding, output_padding, dilation;
  std::int64_t groups;
};

ConvArguments conv_arguments(Draw& d, int dims, bool transposed) {
  ConvArguments a;
  a.stride = window(d, dims, 1, 3);
  a.padding = window(d, dims, 0, 2);
  a.output_padding = d.flag() ? window(d, dims, 0, 1) : std::vector<std::int64_t>{0};
  a.dilation = window(d, dims, 1, 2);
  a.groups = d.flag() ? 1 : d.number(0, 3);
  const std::int64_t groups = a.groups >= 1 && a.groups <= 3 ? a.groups : 1, per_group = 1 + d.below(2),
                     others = 1 + d.below(3);
  Shape x, w{transposed ? groups * per_group : others * groups, transposed ? others : per_group};
  if (d.chance(0.8)) x.push_back(d.below(3));
  x.push_back(groups * per_group);
  for (int i = 0; i < dims; ++i) {
    x.push_back(1 + d.below(8));
    w.push_back(d.chance(0.05) ? 0 : 1 + d.below(3));
  }
  if (d.chance(0.05)) x = d.shape();
  if (d.chance(0.05)) w = d.shape();
  a.x = d.floats(x);
  a.w = d.tensor(w, a.x.dtype());
  a.bias = d.optional({transposed ? others * groups : others * groups}, a.x.dtype());
  return a;
}

/** A convolution's result, or none. */
Expected conv_result(const ConvArguments& a, int dims, bool transposed) {
  const Sizes x = sizes(a.x), w = sizes(a.w);
  const auto spatial = static_cast<std::size_t>(dims);
  if ((x.size() != spatial + 1 && x.size() != spatial + 2) || w.size() != spatial + 2 || a.groups < 1)
    return refused();
  const std::size_t first = x.size() - spatial;
  const Wide channels = transposed ? w[0] : w[1] * a.groups, results = transposed ? w[1] * a.groups : w[0];
  if (x[first - 1] != channels || channels % a.groups != 0 || results % a.groups != 0) return refused();
  Sizes shape = x;
  shape[first - 1] = results;
  for (int i = 0; i < dims; ++i) {
    const auto stride = at(a.stride, dims, i), padding = at(a.padding, dims, i),
               dilation = at(a.dilation, dims, i), more = at(a.output_padding, dims, i);
    if (!stride || !padding || !dilation || *stride < 1 || *dilation < 1 || *padding < 0) return refused();
    const Wide in = x[first + static_cast<std::size_t>(i)], kernel = w[2 + static_cast<std::size_t>(i)];
    if (transposed && (!more || *more < 0 || *more >= std::max(*stride, *dilation))) return refused();
    const Wide size = transposed ? (in - 1) * *stride - 2 * *padding + *dilation * (kernel - 1) + *more + 1
                                 : window_places(in + 2 * *padding, kernel, *stride, *dilation);
    if (size < 1 || kernel < 1) return refused();
    shape[first + static_cast<std::size_t>(i)] = size;
  }
  return gives(shape);
}

using Conv = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvOptions&);
using ConvTranspose = Tensor (*)(const Tensor&, const Tensor&, const Tensor&, const ConvTransposeOptions&);

template <int N, Conv f> Trial conv(Draw& d) {
  const ConvArguments a = conv_arguments(d, N, false);
  const bool same = d.chance(0.1);
  Expected expected = conv_result(a, N, false);
  if (same) {
    // The sizes stay where the stride is 1.
    ConvArguments whole = a;
    whole.padding = {0};
    for (int i = 0; i < N; ++i)
      if (at(a.stride, N, i) != Wide{1}) expected = refused();
    if (a.x.dim() == N + 1 || a.x.dim() == N + 2) {
      Sizes shape = sizes(a.x);
      if (a.w.dim() == N + 2) shape[shape.size() - N - 1] = a.w.shape()[0];
      bool is_one = true;
      for (int i = 0; i < N; ++i) is_one = is_one && at(a.stride, N, i) == Wide{1};
      expected = is_one ? gives(shape) : refused();
    }
  }
  return {[=] {
            return list(f(a.x, a.w, a.bias,
                          {as_window(a.stride), same ? ConvPadding("same") : as_padding(a.padding),
                           as_window(a.dilation), a.groups}));
          },
          expected};
}

template <int N, ConvTranspose f> Trial conv_transpose(Draw& d) {
  const ConvArguments a = conv_arguments(d, N, true);
  return {[=] {
            return list(f(a.x, a.w, a.bias,
                          {as_window(a.stride), as_window(a.padding), as_window(a.output_padding), a.groups,
                           as_window(a.dilation)}));
          },
          conv_result(a, N, true)};
}

const Rows convolutions([] {
  add_row("conv1d", conv<1, conv1d>);
  add_row("conv2d", conv<2, conv2d>);
  add_row("conv3d", conv<3, conv3d>);
  add_row("conv_transpose1d", conv_transpose<1, conv_transpose1d>);
  add_row("conv_transpose2d", conv_transpose<2, conv_transpose2d>);
  add_row("conv_transpose3d", conv_transpose<3, conv_transpose3d>);
});

// ---- pooling -----------------------------------------------------------------------------------

struct PoolArguments {
  Tensor x;
  std::vector<std::int64_t> kernel, stride, padding, dilation;
  bool ceil_mode;
};

Tensor image(Draw& d, int dims) {
  if (d.chance(0.05)) return d.tensor();
  Shape shape;
  for (std::int64_t i = d.below(2); i < 2; ++i) shape.push_back(d.below(4));
  for (int i = 0; i < dims; ++i) shape.push_back(d.chance(0.03) ? 0 : 1 + d.below(9));
  return d.floats(shape);
}

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

/** The pooled shape, or none. */
Expected pooled(const PoolArguments& a, int dims, bool pairs) {
  const Sizes x = sizes(a.x);
  const auto spatial = static_cast<std::size_t>(dims);
  if (x.size() != spatial + 1 && x.size() != spatial + 2) return refused();
  Sizes shape = x;
  for (int i = 0; i < dims; ++i) {
    const auto kernel = at(a.kernel, dims, i), stride = at(a.stride.empty() ? a.kernel : a.stride, dims, i),
               padding = at(a.padding, dims, i), dilation = at(a.dilation, dims, i);
    if (!kernel || !stride || !padding || !dilation || *kernel < 1 || *stride < 1 || *dilation < 1 ||
        *padding < 0)
      return refused();
    const std::size_t d = x.size() - spatial + static_cast<std::size_t>(i);
    const Wide room = x[d] + 2 * *padding - *dilation * (*kernel - 1) - 1;
    // Rounded up, the last window must start inside the input or the padding before it.
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
            return list(f(a.x, as_window(a.kernel),
                          {as_window(a.stride), as_window(a.padding), as_window(a.dilation), a.ceil_mode}));
          },
          pooled(a, N, true)};
}

template <int N, MaxValues f> Trial max_values(Draw& d) {
  const PoolArguments a = pool_arguments(d, N);
  return {[=] {
            return list(f(a.x, as_window(a.kernel),
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

template <int N> Expected adaptive(const Tensor& x, const std::vector<std::int64_t>& output, bool pairs) {
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

template <int N, ValuesAndIndices (*f)(const Tensor&, const WindowSizes&)> Trial adaptive_max(Draw& d) {
  const Tensor x = image(d, N);
  const std::vector<std::int64_t> output = window(d, N, 1, 4);
  return {[=] { return list(f(x, as_window(output))); }, adaptive<N>(x, output, true)};
}

using Unpool = Tensor (*)(const Tensor&, const Tensor&, const WindowSizes&, const MaxUnpoolOptions&);

template <int N, Unpool f> Trial max_unpool(Draw& d) {
  const Tensor x = image(d, N);
  const std::vector<std::int64_t> kernel = window(d, N, 1, 3), padding{d.flag() ? 0 : d.number(0, 1)};
  const std::vector<std::int64_t> stride = d.flag() ? window(d, N, 1, 3) : std::vector<std::int64_t>{},
                                  output = d.chance(0.3) ? window(d, N, 3, 9) : std::vector<std::int64_t>{};
  const Tensor places = d.index(x.shape(), 2);
  Expected expected = refused();
  if (x.dim() == N + 1 || x.dim() == N + 2) {
    Sizes shape = sizes(x);
    bool fits = true;
    for (int i = 0; i < N; ++i) {
      Wide& size = shape[shape.size() - N + static_cast<std::size_t>(i)];
      const auto k = at(kernel, N, i), s = at(stride.empty() ? kernel : stride, N, i), p = at(padding, N, i),
                 given = output.empty() ? std::optional<Wide>(0) : at(output, N, i);
      fits = fits && k && s && p && given;
      if (fits) size = output.empty() ? (size - 1) * *s - 2 * *p + *k : *given;
      fits = fits && size >= 1;
    }
    if (fits) expected = gives(shape);
  }
  return {[=] {
            return list(
                f(x, places, as_window(kernel), {as_window(stride), as_window(padding), as_window(output)}));
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

// ---- blocks, resizing, grids -------------------------------------------------------------------

struct Blocks {
  std::vector<std::int64_t> kernel, dilation, padding, stride;
};

Blocks blocks(Draw& d) {
  return {window(d, 2, 1, 3), window(d, 2, 1, 2), window(d, 2, 0, 1), window(d, 2, 1, 2)};
}

/** Number of blocks over an image, and of elements in each; nothing where options are out of
 *  range. */
std::optional<std::pair<Wide, Wide>> block_counts(const Blocks& b, const Sizes& image) {
  Wide blocks = 1, places = 1;
  for (int i = 0; i < 2; ++i) {
    const auto kernel = at(b.kernel, 2, i), dilation = at(b.dilation, 2, i), padding = at(b.padding, 2, i),
               stride = at(b.stride, 2, i);
    if (!kernel || !dilation || !padding || !stride || *padding < 0) return std::nullopt;
    blocks = count({blocks, window_places(image[static_cast<std::size_t>(i)] + 2 * *padding, *kernel, *stride,
                                          *dilation)});
    places = count({places, std::max<Wide>(*kernel, 0)});
  }
  if (blocks < 1) return std::nullopt;
  return std::pair(blocks, places);
}

InterpolateMode mode_of(Draw& d) {
  constexpr InterpolateMode kModes[] = {InterpolateMode::nearest,   InterpolateMode::nearest_exact,
                                        InterpolateMode::linear,    InterpolateMode::bilinear,
                                        InterpolateMode::trilinear, InterpolateMode::bicubic};
  return kModes[d.below(6)];
}

/** Sizes or factors of a resizing, and what they make of x. */
struct Resizing {
  std::vector<std::int64_t> size;
  double factor = 0;
  Expected expected = refused();
};

Resizing resizing(Draw& d, const Tensor& x) {
  Resizing r;
  const int dims = x.dim() - 2;
  if (d.flag())
    r.size = window(d, std::max(dims, 1), 1, 9);
  else
    r.factor = d.real(0.3, 2.5);
  if (dims < 1) return r;
  Sizes shape = sizes(x);
  for (int i = 0; i < dims; ++i) {
    Wide& size = shape[static_cast<std::size_t>(i) + 2];
    const double wanted = std::floor(static_cast<double>(size) * r.factor);
    const auto given = r.size.empty() ? std::optional<Wide>(0) : at(r.size, dims, i);
    if (!given || (r.size.empty() && !(wanted >= 1 && wanted < 0x1p62))) return r;
    size = r.size.empty() ? static_cast<Wide>(wanted) : *given;
    if (size < 1) return r;
  }
  r.expected = gives(shape);
  return r;
}

template <Tensor (*f)(const Tensor&, const UpsampleOptions&), int kLow, int kHigh> Trial upsample(Draw& d) {
  const Tensor x = image(d, kLow + static_cast<int>(d.below(kHigh - kLow + 1)));
  const Resizing r = resizing(d, x);
  const bool align_corners = d.flag(), antialias = d.chance(0.3);
  return {[=] {
            UpsampleOptions options{.align_corners = align_corners, .antialias = antialias};
            if (r.size.empty())
              options.scale_factor = r.factor;
            else
              options.size = as_window(r.size);
            return list(f(x, options));
          },
          r.expected};
}

const Rows others([] {
  add_row("unfold", [](Draw& d) {
    const Tensor x = image(d, 2);
    const Blocks b = blocks(d);
    Expected expected = refused();
    if (x.dim() == 3 || x.dim() == 4) {
      Sizes shape = sizes(x);
      if (const auto n = block_counts(b, {shape[shape.size() - 2], shape.back()})) {
        const Wide rows = count({shape[shape.size() - 3], n->second});
        shape.resize(shape.size() - 3);
        shape.push_back(rows);
        shape.push_back(n->first);
        expected = gives(shape);
      }
    }
    return Trial{[=] {
                   return list(unfold(x, as_window(b.kernel),
                                      {as_window(b.dilation), as_window(b.padding), as_window(b.stride)}));
                 },
                 expected};
  });
  add_row("fold", [](Draw& d) {
    const Blocks b = blocks(d);
    const std::vector<std::int64_t> output = window(d, 2, 1, 6);
    const auto height = at(output, 2, 0), width = at(output, 2, 1);
    const auto n = height && width ? block_counts(b, {*height, *width}) : std::nullopt;
    Shape shape = d.shape(1, 3);
    if (n && n->first < 100 && n->second < 100 && d.chance(0.9)) {
      shape = d.flag() ? Shape{1 + d.below(3)} : Shape{};
      shape.push_back(static_cast<std::int64_t>(n->second) * d.below(3));
      shape.push_back(static_cast<std::int64_t>(n->first));
    }
    const Tensor x = d.floats(shape);
    Expected expected = refused();
    if (n && n->second > 0 && (x.dim() == 2 || x.dim() == 3) && *height >= 1 && *width >= 1) {
      Sizes out = sizes(x);
      const Wide rows = out[out.size() - 2];
      if (rows % n->second == 0 && out.back() == n->first) {
        out.resize(out.size() - 2);
        for (const Wide size : {rows / n->second, *height, *width}) out.push_back(size);
        expected = gives(out);
      }
    }
    return Trial{[=] {
                   return list(fold(x, as_window(output), as_window(b.kernel),
                                    {as_window(b.dilation), as_window(b.padding), as_window(b.stride)}));
                 },
                 expected};
  });
  add_row("interpolate", [](Draw& d) {
    const InterpolateMode mode = mode_of(d);
    const int dims = mode == InterpolateMode::trilinear ? 3 : mode == InterpolateMode::linear ? 1 : 2;
    const Tensor x = image(d, dims);
    const Resizing r = resizing(d, x);
    const bool align_corners = d.chance(0.3), antialias = d.chance(0.2), again = d.chance(0.3);
    return Trial{[=] {
                   InterpolateOptions options{.mode = mode,
                                              .align_corners = align_corners,
                                              .recompute_scale_factor = again,
                                              .antialias = antialias};
                   if (r.size.empty())
                     options.scale_factor = r.factor;
                   else
                     options.size = as_window(r.size);
                   return list(interpolate(x, options));
                 },
                 r.expected};
  });
  add_row("upsample_bicubic", upsample<upsample_bicubic, 2, 2>);
  add_row("upsample_bilinear", upsample<upsample_bilinear, 2, 2>);
  add_row("upsample_linear", upsample<upsample_linear, 1, 1>);
  add_row("upsample_nearest", upsample<upsample_nearest, 1, 3>);
  add_row("upsample_nearest_exact", upsample<upsample_nearest_exact, 1, 3>);
  add_row("upsample_trilinear", upsample<upsample_trilinear, 3, 3>);
  add_row("grid_sample", [](Draw& d) {
    constexpr GridSampleMode kModes[] = {GridSampleMode::bilinear, GridSampleMode::nearest,
                                         GridSampleMode::bicubic};
    constexpr GridSamplePadding kPaddings[] = {GridSamplePadding::zeros, GridSamplePadding::border,
                                               GridSamplePadding::reflection};
    const int dims = 2 + static_cast<int>(d.below(2));
    Shape image{d.below(3), d.below(3)}, places{image[0]};
    for (int i = 0; i < dims; ++i) {
      image.push_back(d.chance(0.05) ? 0 : 1 + d.below(5));
      places.push_back(d.below(5));
    }
    places.push_back(d.chance(0.05) ? 1 : dims);
    const Tensor x = d.floats(image), grid = d.floats(places);
    const GridSampleOptions options{kModes[d.below(3)], kPaddings[d.below(3)], d.flag()};
    Sizes shape = sizes(places);
    shape.pop_back();
    shape.insert(shape.begin() + 1, image[1]);
    return Trial{[=] { return list(grid_sample(x, grid, options)); },
                 places.back() == dims ? gives(shape) : refused()};
  });
  add_row("affine_grid", [](Draw& d) {
    const int dims = 2 + static_cast<int>(d.below(2));
    Shape size{d.number(0, 2), d.number(1, 3)};
    for (int i = 0; i < dims; ++i) size.push_back(d.number(1, 5));
    const std::int64_t n = size[0] >= 0 && size[0] < 100 ? size[0] : 1;
    const Tensor theta = d.floats(d.chance(0.05) ? d.shape() : Shape{n, dims, dims + 1});
    const bool align_corners = d.flag();
    Sizes shape = sizes(size);
    shape.erase(shape.begin() + 1);
    shape.push_back(dims);
    const bool fits = std::all_of(shape.begin() + 1, shape.end(), [](Wide s) { return s >= 1; });
    return Trial{[=] { return list(affine_grid(theta, size, {align_corners})); },
                 fits && size[0] >= 0 ? gives(shape) : refused()};
  });
});

}  // namespace
