// Rows of unfold and fold.
#include <algorithm>

#include "../row.h"
#include "smoke_lines.h"
#include "windows.h"

using namespace rows;
using namespace mezzo;

namespace {

struct Blocks {
  std::int64_t kh, kw, dilation, padding, sh, sw;
  std::int64_t down(std::int64_t h) const {
    return (h + 2 * padding - dilation * (kh - 1) - 1) / sh + 1;
  }
  std::int64_t across(std::int64_t w) const {
    return (w + 2 * padding - dilation * (kw - 1) - 1) / sw + 1;
  }
};

/** Calls visit(column element, image element or -1) for one image [c,h,w]. */
template <class F>
void visit_columns(const Blocks& b, std::int64_t c, std::int64_t h, std::int64_t w, F&& visit) {
  std::int64_t at = 0;
  for (std::int64_t ch = 0; ch < c; ++ch)
    for (std::int64_t i = 0; i < b.kh; ++i)
      for (std::int64_t j = 0; j < b.kw; ++j)
        for (std::int64_t y = 0; y < b.down(h); ++y)
          for (std::int64_t x = 0; x < b.across(w); ++x, ++at) {
            const std::int64_t row = y * b.sh - b.padding + i * b.dilation,
                               column = x * b.sw - b.padding + j * b.dilation;
            const bool inside = row >= 0 && row < h && column >= 0 && column < w;
            visit(at, inside ? (ch * h + row) * w + column : -1);
          }
}

Oracle unfolded(const Blocks& b) {
  return [b](const std::vector<Array>& x) {
    const Shape& s = x[0].shape;
    const std::int64_t n = s.rank() == 4 ? s[0] : 1, c = s[s.rank() - 3], h = s[s.rank() - 2],
                       w = s[s.rank() - 1];
    const std::int64_t rows = c * b.kh * b.kw, columns = b.down(h) * b.across(w);
    Array y{s.rank() == 4 ? Shape{n, rows, columns} : Shape{rows, columns}, {}};
    for (std::int64_t image = 0; image < n; ++image)
      visit_columns(b, c, h, w, [&](std::int64_t, std::int64_t from) {
        y.values.push_back(from < 0 ? 0 : x[0][image * c * h * w + from]);
      });
    return std::vector<Array>{y};
  };
}

Oracle folded(const Blocks& b, std::int64_t h, std::int64_t w) {
  return [=](const std::vector<Array>& x) {
    const Shape& s = x[0].shape;
    const std::int64_t n = s.rank() == 3 ? s[0] : 1, c = s[s.rank() - 2] / (b.kh * b.kw);
    const std::int64_t rows = s[s.rank() - 2] * s[s.rank() - 1];
    Array y{s.rank() == 3 ? Shape{n, c, h, w} : Shape{c, h, w},
            std::vector<double>(static_cast<std::size_t>(n * c * h * w), 0.0)};
    for (std::int64_t image = 0; image < n; ++image)
      visit_columns(b, c, h, w, [&](std::int64_t at, std::int64_t to) {
        if (to >= 0)
          y.values[static_cast<std::size_t>(image * c * h * w + to)] += x[0][image * rows + at];
      });
    return std::vector<Array>{y};
  };
}

struct DrawnBlocks {
  std::vector<std::int64_t> kernel, dilation, padding, stride;
};

DrawnBlocks blocks(FuzzDraw& d) {
  return {window(d, 2, 1, 3), window(d, 2, 1, 2), window(d, 2, 0, 1), window(d, 2, 1, 2)};
}

/** Returns the number of blocks in an image and of elements in each; nothing where options are out
 *  of range. */
std::optional<std::pair<Wide, Wide>> block_counts(const DrawnBlocks& b, const Sizes& image) {
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

UnfoldOptions options_of(const DrawnBlocks& b) {
  return {as_window(b.dilation), as_window(b.padding), as_window(b.stride)};
}

const Rows unfold_rows("space", [] {
  const Blocks dense{2, 3, 1, 0, 1, 1}, spread{2, 2, 2, 1, 2, 1};
  row("unfold", CALL(unfold(x[0], kernel, o), const WindowSizes& kernel, const UnfoldOptions& o))
      .test({.oracle = unfolded(dense), .shapes = {{{2, 2, 3, 4}}, {{3, 2, 3}}, {{0, 1, 3, 3}}}},
            {2, 3}, {})
      .test({.variant = "dilated, padded, strided",
             .oracle = unfolded(spread),
             .shapes = {{{2, 2, 5, 4}}, {{1, 3, 3}}}},
            2, {.dilation = 2, .padding = 1, .stride = {2, 1}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = image(d, 2);
        const DrawnBlocks b = blocks(d);
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
        return Trial{call({x}, as_window(b.kernel), options_of(b)), expected};
      })
      .golden({"", "F.unfold(x0, (2, 3))", "real(2, 2, 3, 4)"}, {2, 3}, {})
      .golden({"options", "F.unfold(x0, 2, 2, 1, (2, 1))", "real(2, 2, 5, 4)"}, 2,
              {.dilation = 2, .padding = 1, .stride = {2, 1}})
      .smoke(smoke_images("unfold 3x3", {f32}, MemoryFormat::contiguous, false), 3, {.padding = 1})
      .smoke(smoke_images("unfold 3x3", {f32}, MemoryFormat::contiguous, true), 3, {.padding = 1});
  row("fold", CALL(fold(x[0], size, kernel, o), const WindowSizes& size, const WindowSizes& kernel,
                   const UnfoldOptions& o))
      .test({.oracle = folded(dense, 3, 4), .shapes = {{{2, 12, 4}}, {{6, 4}}, {{0, 6, 4}}}},
            {3, 4}, {2, 3}, {})
      .test({.variant = "dilated, padded, strided",
             .oracle = folded(spread, 5, 4),
             .shapes = {{{2, 8, 12}}, {{4, 12}}}},
            {5, 4}, 2, {.dilation = 2, .padding = 1, .stride = {2, 1}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const DrawnBlocks b = blocks(d);
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
        return Trial{call({x}, as_window(output), as_window(b.kernel), options_of(b)), expected};
      })
      .golden({"", "F.fold(x0, (3, 4), (2, 3))", "real(2, 12, 4)"}, {3, 4}, {2, 3}, {})
      .golden({"options", "F.fold(x0, (5, 4), 2, 2, 1, (2, 1))", "real(2, 8, 12)"}, {5, 4}, 2,
              {.dilation = 2, .padding = 1, .stride = {2, 1}});
});

}  // namespace
