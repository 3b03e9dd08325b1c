// Rows of resizing and grid sampling. The oracles weight every element of a line, and look up
// infinitely extended images.
#include <algorithm>
#include <cmath>

#include "../places.h"
#include "../row.h"
#include "smoke_lines.h"
#include "windows.h"

using namespace cases;
using namespace rows;
using namespace mezzo;

namespace {

double keys(double x, double a) {
  x = std::abs(x);
  if (x < 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
  return x < 2 ? a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a : 0;
}

double triangle(double x) { return std::max(0.0, 1 - std::abs(x)); }

// ---- interpolate --------------------------------------------------------------------------------

/** Returns the weight of every element of a line of `in` for element o of `out`. */
std::vector<double> line_weights(const InterpolateOptions& how, double factor, std::int64_t in,
                                 std::int64_t out, std::int64_t o) {
  std::vector<double> w(static_cast<std::size_t>(in), 0.0);
  const auto at = [&](double i) -> double& {
    return w[static_cast<std::size_t>(std::min(std::max(i, 0.0), static_cast<double>(in - 1)))];
  };
  const double n = static_cast<double>(in), m = static_cast<double>(out),
               place = static_cast<double>(o);
  double scale = factor > 0 ? 1 / factor : n / m;
  if (how.align_corners) scale = out > 1 ? (n - 1) / (m - 1) : 0;
  const double middle = how.align_corners ? scale * place : scale * (place + 0.5) - 0.5;
  const bool cubic = how.mode == InterpolateMode::bicubic;
  if (how.mode == InterpolateMode::nearest) {
    at(std::floor(place * scale + 1e-9)) = 1;
  } else if (how.mode == InterpolateMode::nearest_exact) {
    at(std::floor((place + 0.5) * scale + 1e-9)) = 1;
  } else if (how.antialias) {
    const double wide = std::max(scale, 1.0), center = scale * (place + 0.5);
    double total = 0;
    for (std::int64_t i = 0; i < in; ++i) {
      const double x = (static_cast<double>(i) + 0.5 - center) / wide;
      total += w[static_cast<std::size_t>(i)] = cubic ? keys(x, -0.5) : triangle(x);
    }
    for (double& v : w) v /= total;
  } else if (cubic) {
    for (double i = std::floor(middle) - 1; i <= std::floor(middle) + 2; ++i)
      at(i) += keys(i - middle, -0.75);
  } else {
    const double inside = std::min(std::max(middle, 0.0), n - 1);
    for (std::int64_t i = 0; i < in; ++i)
      w[static_cast<std::size_t>(i)] = triangle(static_cast<double>(i) - inside);
  }
  return w;
}

/** The oracle of interpolate. `size` is the result's size after batch and channels; `factors` are
 *  given where they define the step. */
Oracle interpolated(const InterpolateOptions& how, const Shape& size,
                    const std::vector<double>& factors = {}) {
  return [=](const std::vector<Array>& x) {
    const Shape& in = x[0].shape;
    Shape shape{in[0], in[1]};
    for (const std::int64_t s : size) shape.push_back(s);
    const auto factor = [&](int d) {
      return factors.empty() ? 0 : factors[static_cast<std::size_t>(d - 2)];
    };
    Array y{shape, {}};
    for (std::int64_t i = 0; i < numel(shape); ++i) {
      const Place to = place_of(shape, i);
      std::vector<std::vector<double>> weights;
      for (int d = 2; d < in.rank(); ++d)
        weights.push_back(
            line_weights(how, factor(d), in[d], shape[d], to[static_cast<std::size_t>(d)]));
      double sum = 0;
      for (std::int64_t j = 0; j < x[0].numel(); ++j) {
        const Place from = place_of(in, j);
        if (from[0] != to[0] || from[1] != to[1]) continue;
        double w = 1;
        for (std::size_t d = 2; d < from.size(); ++d)
          w *= weights[d - 2][static_cast<std::size_t>(from[d])];
        sum += w * x[0][j];
      }
      y.values.push_back(sum);
    }
    return std::vector<Array>{y};
  };
}

// ---- grid_sample --------------------------------------------------------------------------------

/** Returns the index of element i of a line that is extended beyond its ends; -1 for none. */
std::int64_t beyond(std::int64_t i, std::int64_t n, const GridSampleOptions& how) {
  if (i >= 0 && i < n) return i;
  if (how.padding_mode == GridSamplePadding::zeros) return -1;
  if (how.padding_mode == GridSamplePadding::border) return i < 0 ? 0 : n - 1;
  // Reflection, with or without repeating the outermost element.
  if (how.align_corners && n == 1) return 0;
  while (i < 0 || i >= n) {
    if (i < 0) i = how.align_corners ? -i : -1 - i;
    if (i >= n) i = how.align_corners ? 2 * n - 2 - i : 2 * n - 1 - i;
  }
  return i;
}

Oracle sampled(const GridSampleOptions& how) {
  return [how](const std::vector<Array>& x) {
    const Shape &image = x[0].shape, &grid = x[1].shape;
    const int dims = image.rank() - 2;
    Shape shape{image[0], image[1]};
    for (int d = 0; d < dims; ++d) shape.push_back(grid[d + 1]);
    const std::int64_t places = numel(shape) / std::max<std::int64_t>(1, image[0] * image[1]);
    Array y{shape, {}};
    for (std::int64_t i = 0; i < numel(shape); ++i) {
      const std::int64_t n = i / places / image[1], c = i / places % image[1], p = i % places;
      // Every combination of up to four neighbours along each dimension.
      std::int64_t combinations = 1;
      for (int d = 0; d < dims; ++d) combinations *= 4;
      double sum = 0;
      for (std::int64_t k = 0; k < combinations; ++k) {
        double w = 1;
        std::int64_t at = n * image[1] + c, rest = k;
        for (int d = 0; d < dims; ++d, rest /= 4) {
          const std::int64_t size = image[d + 2];
          const double u = x[1][(n * places + p) * dims + dims - 1 - d],
                       s = static_cast<double>(size);
          const double place = how.align_corners ? (u + 1) / 2 * (s - 1) : ((u + 1) * s - 1) / 2;
          const std::int64_t i0 = static_cast<std::int64_t>(std::floor(place)) - 1 + rest % 4;
          const double distance = place - static_cast<double>(i0);
          if (how.mode == GridSampleMode::bicubic)
            w *= keys(distance, -0.75);
          else if (how.mode == GridSampleMode::bilinear)
            w *= triangle(distance);
          else
            w *= std::nearbyint(place) == static_cast<double>(i0);
          const std::int64_t from = beyond(i0, size, how);
          if (from < 0) w = 0;
          at = at * size + std::max<std::int64_t>(from, 0);
        }
        if (w != 0) sum += w * x[0][at];
      }
      y.values.push_back(sum);
    }
    return std::vector<Array>{y};
  };
}

// ---- arguments of the fuzzer --------------------------------------------------------------------

InterpolateMode mode_of(FuzzDraw& d) {
  constexpr InterpolateMode kModes[] = {InterpolateMode::nearest,   InterpolateMode::nearest_exact,
                                        InterpolateMode::linear,    InterpolateMode::bilinear,
                                        InterpolateMode::trilinear, InterpolateMode::bicubic};
  return kModes[d.below(6)];
}

/** Sizes or factors of a resize, and the resulting shape. */
struct Resizing {
  std::vector<std::int64_t> size;
  double factor = 0;
  Expected expected = refused();
};

Resizing resizing(FuzzDraw& d, const Tensor& x) {
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

/** Sets the size or the factor of a resize. */
template <class Options> Options resized_by(const Resizing& r, Options options) {
  if (r.size.empty())
    options.scale_factor = r.factor;
  else
    options.size = as_window(r.size);
  return options;
}

// ---- rows ---------------------------------------------------------------------------------------

using Mode = InterpolateMode;

WindowSizes window_of(const Shape& size) { return as_window({size.begin(), size.end()}); }

const Rows resizing_rows("space", [] {
  auto r =
      row("interpolate", CALL(interpolate(x[0], o), const InterpolateOptions& o))
          .test({.variant = "by a factor, which is the step",
                 .oracle = interpolated({.mode = Mode::bilinear}, {5, 3}, {1.7, 0.6}),
                 .shapes = {{{2, 1, 3, 5}}}},
                {.scale_factor = {1.7, 0.6}, .mode = Mode::bilinear})
          .test({.variant = "by a factor, which is recomputed",
                 .oracle = interpolated({.mode = Mode::bicubic}, {5, 3}),
                 .shapes = {{{2, 1, 3, 5}}}},
                {.scale_factor = {1.7, 0.6}, .mode = Mode::bicubic, .recompute_scale_factor = true})
          .fuzz([](FuzzDraw& d, const auto& call) {
            const InterpolateMode mode = mode_of(d);
            const int dims = mode == InterpolateMode::trilinear ? 3
                             : mode == InterpolateMode::linear  ? 1
                                                                : 2;
            const Tensor x = image(d, dims);
            const Resizing drawn = resizing(d, x);
            const bool align_corners = d.chance(0.3), antialias = d.chance(0.2),
                       again = d.chance(0.3);
            return Trial{
                call({x}, resized_by(drawn, InterpolateOptions{.mode = mode,
                                                               .align_corners = align_corners,
                                                               .recompute_scale_factor = again,
                                                               .antialias = antialias})),
                drawn.expected};
          })
          .golden({"bicubic", "F.interpolate(x0, (6, 3), mode='bicubic')", "real(2, 2, 4, 5)"},
                  {.size = {6, 3}, .mode = Mode::bicubic})
          .golden(
              {"bicubic, corners", "F.interpolate(x0, (6, 3), mode='bicubic', align_corners=True)",
               "real(2, 2, 4, 5)"},
              {.size = {6, 3}, .mode = Mode::bicubic, .align_corners = true})
          .golden(
              {"bilinear, antialias", "F.interpolate(x0, (3, 8), mode='bilinear', antialias=True)",
               "real(1, 2, 7, 5)"},
              {.size = {3, 8}, .mode = Mode::bilinear, .antialias = true})
          .golden({"bicubic, antialias",
                   "F.interpolate(x0, (3, 8), mode='bicubic', antialias=True)", "real(1, 2, 8, 5)"},
                  {.size = {3, 8}, .mode = Mode::bicubic, .antialias = true})
          .golden({"factor", "F.interpolate(x0, scale_factor=(1.7, 0.6), mode='bilinear')",
                   "real(1, 2, 3, 5)"},
                  {.scale_factor = {1.7, 0.6}, .mode = Mode::bilinear})
          .golden({"factor of nearest", "F.interpolate(x0, scale_factor=(1.7, 0.6))",
                   "real(1, 2, 3, 5)"},
                  {.scale_factor = {1.7, 0.6}})
          .golden(
              {"factor, recomputed",
               "F.interpolate(x0, scale_factor=(1.7, 0.6), mode='bicubic', "
               "recompute_scale_factor=True)",
               "real(1, 2, 3, 5)"},
              {.scale_factor = {1.7, 0.6}, .mode = Mode::bicubic, .recompute_scale_factor = true});
  const auto add_resize = [&](const char* variant, InterpolateOptions how, const Shape& size,
                              const Shape& from) {
    const Oracle oracle = interpolated(how, size);
    how.size = window_of(size);
    r.test({.variant = variant, .oracle = oracle, .shapes = {{from}}}, how);
  };
  add_resize("nearest", {}, {5}, {2, 3, 3});
  add_resize("nearest of an image", {}, {6, 2}, {1, 2, 4, 5});
  add_resize("nearest of a volume", {}, {3, 5, 2}, {1, 2, 2, 3, 4});
  add_resize("nearest_exact", {.mode = Mode::nearest_exact}, {6, 3}, {2, 1, 4, 5});
  add_resize("linear", {.mode = Mode::linear}, {7}, {2, 2, 4});
  add_resize("linear shrinks", {.mode = Mode::linear}, {3}, {1, 2, 7});
  add_resize("linear, corners", {.mode = Mode::linear, .align_corners = true}, {7}, {2, 2, 4});
  add_resize("linear from and to one element, corners",
             {.mode = Mode::linear, .align_corners = true}, {1}, {1, 1, 4});
  add_resize("bilinear", {.mode = Mode::bilinear}, {5, 3}, {2, 2, 3, 4});
  add_resize("bilinear of nothing", {.mode = Mode::bilinear}, {5, 3}, {0, 2, 3, 4});
  add_resize("bilinear, corners", {.mode = Mode::bilinear, .align_corners = true}, {5, 7},
             {1, 2, 3, 4});
  add_resize("trilinear", {.mode = Mode::trilinear}, {3, 2, 5}, {1, 2, 2, 3, 4});
  add_resize("trilinear, corners", {.mode = Mode::trilinear, .align_corners = true}, {3, 2, 5},
             {1, 1, 2, 3, 4});
  add_resize("bicubic", {.mode = Mode::bicubic}, {7, 3}, {1, 2, 4, 5});
  add_resize("bicubic, corners", {.mode = Mode::bicubic, .align_corners = true}, {6, 5},
             {1, 1, 4, 3});
  add_resize("bilinear, antialiased", {.mode = Mode::bilinear, .antialias = true}, {3, 2},
             {1, 2, 7, 5});
  add_resize("bilinear, antialiased, grows", {.mode = Mode::bilinear, .antialias = true}, {5, 2},
             {1, 1, 3, 5});
  add_resize("bicubic, antialiased", {.mode = Mode::bicubic, .antialias = true}, {3, 4},
             {1, 2, 8, 5});

  struct Space {
    int dims;
    Mode linear;
    const char *mode, *operand, *torch_size;
    Shape size;
  };
  for (const Space& s :
       {Space{1, Mode::linear, "linear", "real(2, 2, 5)", "(8,)", {8}},
        Space{2, Mode::bilinear, "bilinear", "real(2, 2, 4, 5)", "(6, 3)", {6, 3}},
        Space{3, Mode::trilinear, "trilinear", "real(1, 2, 3, 4, 5)", "(5, 2, 7)", {5, 2, 7}}}) {
    const WindowSizes size = window_of(s.size);
    const std::string call = std::string("F.interpolate(x0, ") + s.torch_size,
                      linear = str(call, ", mode='", s.mode, "'");
    r.golden({str("nearest ", s.dims), call + ")", s.operand}, {.size = size})
        .golden({str("nearest_exact ", s.dims), call + ", mode='nearest-exact')", s.operand},
                {.size = size, .mode = Mode::nearest_exact})
        .golden({s.mode, linear + ", align_corners=False)", s.operand},
                {.size = size, .mode = s.linear})
        .golden({str(s.mode, ", corners"), linear + ", align_corners=True)", s.operand},
                {.size = size, .mode = s.linear, .align_corners = true});
  }
  for (const bool backward : {false, true})
    r.smoke(smoke_images("interpolate nearest", {f32}, MemoryFormat::contiguous, backward),
            {.scale_factor = 2})
        .smoke(smoke_images("interpolate bilinear", {f32}, MemoryFormat::contiguous, backward),
               {.scale_factor = 2, .mode = Mode::bilinear});
});

/** Draws images with kLow to kHigh spatial dimensions. */
template <int kLow, int kHigh>
constexpr auto drawn_upsample = [](FuzzDraw& d, const auto& call) {
  const Tensor x = image(d, kLow + static_cast<int>(d.below(kHigh - kLow + 1)));
  const Resizing drawn = resizing(d, x);
  const bool align_corners = d.flag(), antialias = d.chance(0.3);
  return Trial{call({x}, resized_by(drawn, UpsampleOptions{.align_corners = align_corners,
                                                           .antialias = antialias})),
               drawn.expected};
};

/** Starts the row of an upsample function. */
#define UPSAMPLE(name) row(#name, CALL(name(x[0], o), const UpsampleOptions& o))

/** The case of a function that doubles images of shape `from` to `size`. */
Case doubled(InterpolateMode mode, const Shape& from, const Shape& size) {
  return {.oracle = interpolated({.mode = mode}, size), .shapes = {{from}}};
}

const Rows upsampling_rows("space", [] {
  UPSAMPLE(upsample_nearest)
      .test(doubled(Mode::nearest, {1, 2, 3}, {6}), {.scale_factor = 2})
      .fuzz(drawn_upsample<1, 3>)
      .golden({"", "F.interpolate(x0, scale_factor=2)", "real(1, 2, 3)"}, {.scale_factor = 2});
  UPSAMPLE(upsample_nearest_exact)
      .test(doubled(Mode::nearest_exact, {1, 2, 3, 2}, {6, 4}), {.scale_factor = 2})
      .fuzz(drawn_upsample<1, 3>)
      .golden({"", "F.interpolate(x0, scale_factor=2, mode='nearest-exact')", "real(1, 2, 3, 2)"},
              {.scale_factor = 2});
  UPSAMPLE(upsample_linear)
      .test(doubled(Mode::linear, {2, 2, 3}, {6}), {.scale_factor = 2})
      .fuzz(drawn_upsample<1, 1>)
      .golden({"", "F.interpolate(x0, scale_factor=2, mode='linear')", "real(1, 2, 3)"},
              {.scale_factor = 2});
  UPSAMPLE(upsample_bilinear)
      .test(doubled(Mode::bilinear, {1, 2, 3, 2}, {6, 4}), {.scale_factor = 2})
      .fuzz(drawn_upsample<2, 2>)
      .golden({"", "F.interpolate(x0, scale_factor=2, mode='bilinear')", "real(1, 2, 3, 2)"},
              {.scale_factor = 2});
  UPSAMPLE(upsample_trilinear)
      .test(doubled(Mode::trilinear, {1, 1, 2, 3, 2}, {4, 6, 4}), {.scale_factor = 2})
      .fuzz(drawn_upsample<3, 3>)
      .golden({"", "F.interpolate(x0, scale_factor=2, mode='trilinear')", "real(1, 1, 2, 3, 2)"},
              {.scale_factor = 2});
  UPSAMPLE(upsample_bicubic)
      .test(doubled(Mode::bicubic, {1, 2, 3, 2}, {6, 4}), {.scale_factor = 2})
      .fuzz(drawn_upsample<2, 2>)
      .golden({"", "F.interpolate(x0, scale_factor=2, mode='bicubic')", "real(1, 2, 3, 2)"},
              {.scale_factor = 2});
});

const Rows sampling_rows("space", [] {
  using Sampling = GridSampleMode;
  using Around = GridSamplePadding;
  auto samples =
      row("grid_sample", CALL(grid_sample(x[0], x[1], o), const GridSampleOptions& o))
          .fuzz([](FuzzDraw& d, const auto& call) {
            constexpr GridSampleMode kModes[] = {GridSampleMode::bilinear, GridSampleMode::nearest,
                                                 GridSampleMode::bicubic};
            constexpr GridSamplePadding kPaddings[] = {
                GridSamplePadding::zeros, GridSamplePadding::border, GridSamplePadding::reflection};
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
            return Trial{call({x, grid}, options),
                         places.back() == dims ? gives(shape) : refused()};
          })
          .smoke({.name = "grid_sample % backward",
                  .dtypes = {f32},
                  .operands =
                      [](const Maker& make, DType dtype) {
                        const std::int64_t batch = make.pick(1, 2, 16),
                                           pixels = make.pick(8, 28, 128);
                        // Away from integer positions, where the gradient by the grid is
                        // discontinuous.
                        return Tensors{make.normal({batch, 3, pixels, pixels}, dtype),
                                       make.normal({batch, pixels, pixels, 2}, dtype) * 0.3 + 0.01};
                      },
                  .passes = 4,
                  .factor = 1e-2 / smoke::tolerance(f32),
                  .backward = true});
  const auto add_sample = [&](const std::string& variant, const GridSampleOptions& how,
                              const std::vector<std::vector<Shape>>& shapes) {
    samples.test({.variant = variant,
                  .oracle = sampled(how),
                  .operands = {{}, {.low = -1.6, .high = 1.6}},
                  .shapes = shapes,
                  .factor = 8,
                  .second_order = false},
                 how);
  };
  const auto add_golden = [&](const char* name, const char* mode, const char* around,
                              const GridSampleOptions& how, const char* operands) {
    samples.golden({str(name, ", ", around, how.align_corners ? ", corners" : ""),
                    str("F.grid_sample(x0, x1, '", mode, "', '", around, "', ",
                        how.align_corners ? "True)" : "False)"),
                    operands, 4},
                   how);
  };
  const char *const of_images = "real(2, 2, 3, 4), real(2, 4, 5, 2, low=-1.6, high=1.6)",
                    *const of_volumes =
                        "real(1, 2, 2, 3, 4), real(1, 2, 3, 2, 3, low=-1.6, high=1.6)";
  const std::vector<std::vector<Shape>> images{{{2, 2, 3, 4}, {2, 3, 2, 2}},
                                               {{1, 1, 1, 2}, {1, 2, 2, 2}}};
  const std::vector<std::vector<Shape>> volumes{{{2, 1, 2, 3, 4}, {2, 2, 1, 3, 3}}};
  for (const bool corners : {false, true})
    for (const auto& [around, name] :
         {std::pair(Around::zeros, "zeros"), std::pair(Around::border, "border"),
          std::pair(Around::reflection, "reflection")}) {
      const std::string suffix = std::string(", ") + name + (corners ? ", corners" : "");
      const GridSampleOptions bilinear{Sampling::bilinear, around, corners},
          nearest{Sampling::nearest, around, corners}, bicubic{Sampling::bicubic, around, corners};
      add_sample("bilinear" + suffix, bilinear, images);
      add_sample("trilinear" + suffix, bilinear, volumes);
      add_sample("nearest" + suffix, nearest, images);
      add_sample("nearest of volumes" + suffix, nearest, volumes);
      add_sample("bicubic" + suffix, bicubic, images);
      add_golden("bilinear", "bilinear", name, bilinear, of_images);
      add_golden("nearest", "nearest", name, nearest, of_images);
      add_golden("bicubic", "bicubic", name, bicubic, of_images);
      add_golden("trilinear", "bilinear", name, bilinear, of_volumes);
    }
  add_sample(
      "of and at nothing", {},
      {{{2, 2, 3, 4}, {2, 0, 2, 2}}, {{0, 2, 3, 4}, {0, 1, 2, 2}}, {{1, 0, 3, 4}, {1, 1, 2, 2}}});
  auto grids =
      row("affine_grid",
          CALL(affine_grid(x[0], size, o), const Shape& size, const AffineGridOptions& o))
          .fuzz([](FuzzDraw& d, const auto& call) {
            const int dims = 2 + static_cast<int>(d.below(2));
            Shape size{d.number(0, 2), d.number(1, 3)};
            for (int i = 0; i < dims; ++i) size.push_back(d.number(1, 5));
            const std::int64_t n = size[0] >= 0 && size[0] < 100 ? size[0] : 1;
            const Tensor theta = d.floats(d.chance(0.05) ? d.shape() : Shape{n, dims, dims + 1});
            const bool align_corners = d.flag();
            Sizes shape = sizes(size);
            shape.erase(shape.begin() + 1);
            shape.push_back(dims);
            const bool fits =
                std::all_of(shape.begin() + 1, shape.end(), [](Wide s) { return s >= 1; });
            return Trial{call({theta}, size, {align_corners}),
                         fits && size[0] >= 0 ? gives(shape) : refused()};
          })
          .golden({"", "F.affine_grid(x0, (2, 1, 3, 4), align_corners=False)", "real(2, 2, 3)"},
                  {2, 1, 3, 4}, {})
          .golden({"corners", "F.affine_grid(x0, (1, 1, 2, 3, 4), align_corners=True)",
                   "real(1, 3, 4)"},
                  {1, 1, 2, 3, 4}, {.align_corners = true});
  for (const bool corners : {false, true})
    grids.test(
        {.variant = corners ? "corners" : "",
         .call =
             [corners](const std::vector<Tensor>& x) {
               const Shape size = x[0].size(1) == 2 ? Shape{x[0].size(0), 5, 3, 2}
                                                    : Shape{x[0].size(0), 5, 1, 2, 3};
               return std::vector<Tensor>{affine_grid(x[0], size, {.align_corners = corners})};
             },
         .oracle =
             [corners](const std::vector<Array>& x) {
               const std::int64_t n = x[0].shape[0], dims = x[0].shape[1];
               const Shape size = dims == 2 ? Shape{3, 2} : Shape{1, 2, 3};
               Shape shape{n};
               for (const std::int64_t s : size) shape.push_back(s);
               shape.push_back(dims);
               Array y{shape, {}};
               for (std::int64_t i = 0; i < numel(shape); ++i) {
                 const Place at = place_of(shape, i);
                 const std::int64_t row = (at.front() * dims + at.back()) * (dims + 1);
                 double sum = x[0][row + dims];
                 for (std::int64_t d = 0; d < dims; ++d) {
                   const double s = static_cast<double>(size[dims - 1 - d]),
                                p = static_cast<double>(at[static_cast<std::size_t>(dims - d)]);
                   const double place =
                       corners ? (s > 1 ? 2 * p / (s - 1) - 1 : 0) : (2 * p + 1) / s - 1;
                   sum += x[0][row + d] * place;
                 }
                 y.values.push_back(sum);
               }
               return std::vector<Array>{y};
             },
         .shapes = {{{2, 2, 3}}, {{1, 3, 4}}}});
});

}  // namespace
