// Cases of resizing and grid sampling. The oracles weight every element of a line, and look up
// infinitely extended images.
#include "places.h"

using namespace cases;
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

void add_resize(const char* variant, const InterpolateOptions& how, const Shape& size,
                const Shape& from) {
  InterpolateOptions options = how;
  options.size = size.rank() == 1   ? WindowSizes{size[0]}
                 : size.rank() == 2 ? WindowSizes{size[0], size[1]}
                                    : WindowSizes{size[0], size[1], size[2]};
  add_case({.op = "interpolate",
            .variant = variant,
            .call =
                [=](const std::vector<Tensor>& x) {
                  return std::vector<Tensor>{interpolate(x[0], options)};
                },
            .oracle = interpolated(how, size),
            .shapes = {{from}}});
}

template <class F>
void add_upsample(const char* op, F upsample, InterpolateMode mode, const Shape& from,
                  const Shape& size) {
  add_case({.op = op,
            .call =
                [=](const std::vector<Tensor>& x) {
                  return std::vector<Tensor>{upsample(x[0], {.scale_factor = 2})};
                },
            .oracle = interpolated({.mode = mode}, size),
            .shapes = {{from}}});
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

void add_sample(const std::string& variant, const GridSampleOptions& how,
                const std::vector<std::vector<Shape>>& shapes) {
  add_case({.op = "grid_sample",
            .variant = variant,
            .call =
                [=](const std::vector<Tensor>& x) {
                  return std::vector<Tensor>{grid_sample(x[0], x[1], how)};
                },
            .oracle = sampled(how),
            .operands = {{}, {.low = -1.6, .high = 1.6}},
            .shapes = shapes,
            .factor = 8,
            .second_order = false});
}

const Registrar additions([] {
  using Mode = InterpolateMode;
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
  add_case({.op = "interpolate",
            .variant = "by a factor, which is the step",
            .call = CALL(interpolate(x[0], {.scale_factor = {1.7, 0.6}, .mode = Mode::bilinear})),
            .oracle = interpolated({.mode = Mode::bilinear}, {5, 3}, {1.7, 0.6}),
            .shapes = {{{2, 1, 3, 5}}}});
  add_case({.op = "interpolate",
            .variant = "by a factor, which is recomputed",
            .call = CALL(interpolate(x[0], {.scale_factor = {1.7, 0.6},
                                            .mode = Mode::bicubic,
                                            .recompute_scale_factor = true})),
            .oracle = interpolated({.mode = Mode::bicubic}, {5, 3}),
            .shapes = {{{2, 1, 3, 5}}}});
  add_upsample("upsample_nearest", upsample_nearest, Mode::nearest, {1, 2, 3}, {6});
  add_upsample("upsample_nearest_exact", upsample_nearest_exact, Mode::nearest_exact, {1, 2, 3, 2},
               {6, 4});
  add_upsample("upsample_linear", upsample_linear, Mode::linear, {2, 2, 3}, {6});
  add_upsample("upsample_bilinear", upsample_bilinear, Mode::bilinear, {1, 2, 3, 2}, {6, 4});
  add_upsample("upsample_trilinear", upsample_trilinear, Mode::trilinear, {1, 1, 2, 3, 2},
               {4, 6, 4});
  add_upsample("upsample_bicubic", upsample_bicubic, Mode::bicubic, {1, 2, 3, 2}, {6, 4});

  using Sampling = GridSampleMode;
  using Around = GridSamplePadding;
  const std::vector<std::vector<Shape>> images{{{2, 2, 3, 4}, {2, 3, 2, 2}},
                                               {{1, 1, 1, 2}, {1, 2, 2, 2}}};
  const std::vector<std::vector<Shape>> volumes{{{2, 1, 2, 3, 4}, {2, 2, 1, 3, 3}}};
  for (const bool corners : {false, true})
    for (const auto& [around, name] :
         {std::pair(Around::zeros, "zeros"), std::pair(Around::border, "border"),
          std::pair(Around::reflection, "reflection")}) {
      const std::string suffix = std::string(", ") + name + (corners ? ", corners" : "");
      add_sample("bilinear" + suffix, {Sampling::bilinear, around, corners}, images);
      add_sample("trilinear" + suffix, {Sampling::bilinear, around, corners}, volumes);
      add_sample("nearest" + suffix, {Sampling::nearest, around, corners}, images);
      add_sample("nearest of volumes" + suffix, {Sampling::nearest, around, corners}, volumes);
      add_sample("bicubic" + suffix, {Sampling::bicubic, around, corners}, images);
    }
  add_sample(
      "of and at nothing", {},
      {{{2, 2, 3, 4}, {2, 0, 2, 2}}, {{0, 2, 3, 4}, {0, 1, 2, 2}}, {{1, 0, 3, 4}, {1, 1, 2, 2}}});

  for (const bool corners : {false, true})
    add_case({.op = "affine_grid",
              .variant = corners ? "corners" : "",
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
                                     p = static_cast<double>(
                                         at[static_cast<std::size_t>(dims - d)]);
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
