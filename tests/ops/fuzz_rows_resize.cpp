// Rows of the ops on blocks of images, and of resizing and grid sampling.
#include <algorithm>
#include <cmath>

#include "fuzz_windows.h"

using namespace fuzz;
using namespace mezzo;

namespace {

struct Blocks {
  std::vector<std::int64_t> kernel, dilation, padding, stride;
};

Blocks blocks(Draw& d) {
  return {window(d, 2, 1, 3), window(d, 2, 1, 2), window(d, 2, 0, 1), window(d, 2, 1, 2)};
}

/** Returns the number of blocks in an image and of elements in each; nothing where options are out
 *  of range. */
std::optional<std::pair<Wide, Wide>> block_counts(const Blocks& b, const Sizes& image) {
  Wide blocks = 1, places = 1;
  for (int i = 0; i < 2; ++i) {
    const auto kernel = at(b.kernel, 2, i), dilation = at(b.dilation, 2, i),
               padding = at(b.padding, 2, i), stride = at(b.stride, 2, i);
    if (!kernel || !dilation || !padding || !stride || *padding < 0) return std::nullopt;
    blocks = count({blocks, window_places(image[static_cast<std::size_t>(i)] + 2 * *padding,
                                          *kernel, *stride, *dilation)});
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

/** Sizes or factors of a resize, and the resulting shape. */
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

template <Tensor (*f)(const Tensor&, const UpsampleOptions&), int kLow, int kHigh>
Trial upsample(Draw& d) {
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
    return Trial{
        [=] {
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
    return Trial{
        [=] {
          return list(fold(x, as_window(output), as_window(b.kernel),
                           {as_window(b.dilation), as_window(b.padding), as_window(b.stride)}));
        },
        expected};
  });
  add_row("interpolate", [](Draw& d) {
    const InterpolateMode mode = mode_of(d);
    const int dims = mode == InterpolateMode::trilinear ? 3
                     : mode == InterpolateMode::linear  ? 1
                                                        : 2;
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
