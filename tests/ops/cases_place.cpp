// Cases of the ops that move elements: padding, flips, rolls, repeats, blocks and pixel shuffles.
#include "places.h"

using namespace cases;
using namespace mezzo;

namespace {

/** Returns the padded index, found by walking one step at a time from inside. It shares no formula
 *  with the library. */
std::int64_t walked(std::int64_t o, std::int64_t n, PadMode mode) {
  if (n == 0) return -1;
  std::int64_t i = 0, step = o < 0 ? -1 : 1, direction = step;
  for (std::int64_t k = 0; k != o; k += step) {
    std::int64_t next = i + direction;
    if (next < 0 || next >= n) {
      if (mode == PadMode::constant) return -1;
      if (mode == PadMode::replicate) return i;
      if (mode == PadMode::reflect) next = i - direction, direction = -direction;
      if (mode == PadMode::circular) next = next < 0 ? n - 1 : 0;
    }
    i = next;
  }
  return i;
}

/** Returns the source position of a position in the padded dimension. Negative padding removes
 *  elements before circular padding wraps. */
std::int64_t source_of(std::int64_t place, std::int64_t n, std::int64_t before, std::int64_t behind,
                       PadMode mode) {
  if (mode != PadMode::circular) return walked(place - before, n, mode);
  std::vector<std::int64_t> left;
  for (std::int64_t i = std::max<std::int64_t>(-before, 0);
       i < n + std::min<std::int64_t>(behind, 0); ++i)
    left.push_back(i);
  const std::int64_t first = std::max<std::int64_t>(before, 0);
  const std::int64_t at = walked(place - first, static_cast<std::int64_t>(left.size()), mode);
  return at < 0 ? at : left[static_cast<std::size_t>(at)];
}

/** The oracle of pad; the last dimension comes first, as in the call. */
Oracle padded(const Place& padding, PadMode mode, double value = 0) {
  return [=](const std::vector<Array>& x) {
    Shape shape = x[0].shape;
    const int rank = shape.rank();
    Place before(shape.size()), behind(shape.size());
    for (std::size_t p = 0; p < padding.size() / 2; ++p) {
      shape[rank - 1 - static_cast<int>(p)] += padding[2 * p] + padding[2 * p + 1];
      before[shape.size() - 1 - p] = padding[2 * p];
      behind[shape.size() - 1 - p] = padding[2 * p + 1];
    }
    Array y = moved(x[0], shape, [&](std::int64_t i) {
      Place place = place_of(shape, i);
      for (std::size_t d = 0; d < place.size(); ++d) {
        place[d] = source_of(place[d], x[0].shape[static_cast<int>(d)], before[d], behind[d], mode);
        if (place[d] < 0) return std::int64_t{-1};
      }
      return position_of(x[0].shape, place);
    });
    if (value == 0) return std::vector<Array>{y};
    for (std::size_t i = 0; i < y.values.size(); ++i) {
      const Place place = place_of(shape, static_cast<std::int64_t>(i));
      for (std::size_t d = 0; d < place.size(); ++d)
        if (source_of(place[d], x[0].shape[static_cast<int>(d)], before[d], behind[d], mode) < 0)
          y.values[i] = value;
    }
    return std::vector<Array>{y};
  };
}

void add_pad(const char* variant, const Place& padding, const PadOptions& options,
             const std::vector<std::vector<Shape>>& shapes) {
  add_case({.op = "pad",
            .variant = variant,
            .call =
                [=](const std::vector<Tensor>& x) {
                  return std::vector<Tensor>{pad(x[0], padding, options)};
                },
            .oracle = padded(padding, options.mode, options.value),
            .shapes = shapes});
}

/** The oracle of ops where result element i comes from position source(place of i). */
Oracle taken(const std::function<Shape(const Shape&)>& shape_of,
             const std::function<void(Place&, const Shape&)>& source) {
  return [=](const std::vector<Array>& x) {
    const Shape shape = shape_of(x[0].shape);
    return std::vector<Array>{moved(x[0], shape, [&](std::int64_t i) {
      Place place = place_of(shape, i);
      source(place, x[0].shape);
      return position_of(x[0].shape, place);
    })};
  };
}

Shape kept(const Shape& shape) { return shape; }

// ---- blocks -------------------------------------------------------------------------------------

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

const Registrar additions([] {
  const std::vector<std::vector<Shape>> images{{{2, 3, 4, 5}}, {{1, 1, 4, 4}}, {{3, 4, 4}}};
  add_pad("constant", {1, 2}, {}, {{{5}}, {{3, 4}}, {{2, 0}}, {{0, 2}}, {{2, 3, 2}}});
  add_pad("constant with a value, last dimension first", {1, 0, 2, 1}, {.value = 1.5},
          {{{3, 4}}, {{2, 3, 2}}});
  add_pad("outer dimensions only", {0, 0, 0, 0, 1, 2}, {.value = -2},
          {{{2, 3, 4}}, {{2, 2, 3, 2}}});
  add_pad("crop", {-1, -2, 1, -1}, {}, {{{3, 4}}, {{2, 5, 3}}});
  add_pad("nothing", {}, {}, {{Shape{}}, {{3}}, {{2, 0}}});
  add_pad("reflect", {2, 1, 1, 3}, {.mode = PadMode::reflect}, images);
  add_pad("reflect one dimension", {3, 3}, {.mode = PadMode::reflect}, {{{4}}, {{2, 5}}});
  add_pad("replicate", {2, 1, 0, 6}, {.mode = PadMode::replicate}, images);
  add_pad("replicate crops", {-1, 4}, {.mode = PadMode::replicate}, {{{4}}, {{2, 2}}});
  add_pad("circular", {3, 1, 4, 2}, {.mode = PadMode::circular}, images);
  add_pad("circular, elements removed", {2, -1, -2, 1}, {.mode = PadMode::circular}, images);
  add_pad("reflect, elements removed", {2, -1, -2, 1}, {.mode = PadMode::reflect}, images);
  add_pad("replicate, elements removed", {2, -1, -2, 1}, {.mode = PadMode::replicate}, images);

  add_case({.op = "flip",
            .call = CALL(flip(x[0], {0, -1})),
            .oracle = taken(kept,
                            [](Place& p, const Shape& s) {
                              p.front() = s[0] - 1 - p.front();
                              if (p.size() > 1) p.back() = s.back() - 1 - p.back();
                            }),
            .shapes = {{{3, 4}}, {{2, 3, 2}}, {{0, 2}}}});
  add_case({.op = "flip",
            .variant = "one of one",
            .call = CALL(flip(x[0], 0)),
            .oracle = taken(kept, [](Place& p, const Shape& s) { p[0] = s[0] - 1 - p[0]; }),
            .shapes = {{{7}}, {{3, 2}}}});
  add_case({.op = "roll",
            .call = CALL(roll(x[0], {2, -1}, {0, 1})),
            .oracle = taken(kept,
                            [](Place& p, const Shape& s) {
                              p[0] = (p[0] - 2 + 2 * s[0]) % s[0];
                              p[1] = (p[1] + 1) % s[1];
                            }),
            .shapes = {{{3, 4}}, {{2, 3, 2}}, {{0, 2}}}});
  add_case({.op = "roll",
            .variant = "flattened, more than once around",
            .call = CALL(roll(x[0], 14)),
            .oracle = [](const std::vector<Array>& x) {
              const std::int64_t n = x[0].numel();
              return std::vector<Array>{
                  moved(x[0], x[0].shape, [&](std::int64_t i) { return ((i - 14) % n + n) % n; })};
            }});
  add_case({.op = "repeat",
            .call = CALL(repeat(x[0], {2, 1, 3})),
            .oracle = taken(
                [](const Shape& s) {
                  Shape shape = s;
                  while (shape.rank() < 3) shape.insert(0, 1);
                  shape[0] *= 2;
                  shape[2] *= 3;
                  return shape;
                },
                [](Place& p, const Shape& s) {
                  while (p.size() > s.size()) p.erase(p.begin());
                  for (std::size_t d = 0; d < p.size(); ++d) p[d] %= s[static_cast<int>(d)];
                }),
            .shapes = {{Shape{}}, {{3}}, {{2, 2}}, {{2, 3, 2}}, {{2, 0}}}});
  add_case({.op = "repeat",
            .variant = "no copy at all",
            .call = CALL(repeat(x[0], {0, 2})),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{{{0, 2 * x[0].shape[1]}, {}}};
                },
            .shapes = {{{3, 2}}}});

  add_case({.op = "tile",
            .call = CALL(tile(x[0], {2, 3})),
            .oracle = taken(
                [](const Shape& s) {
                  Shape shape = s;
                  while (shape.rank() < 2) shape.insert(0, 1);
                  shape[shape.rank() - 2] *= 2;
                  shape[shape.rank() - 1] *= 3;
                  return shape;
                },
                [](Place& p, const Shape& s) {
                  while (p.size() > s.size()) p.erase(p.begin());
                  for (std::size_t d = 0; d < p.size(); ++d) p[d] %= s[static_cast<int>(d)];
                }),
            .shapes = {{Shape{}}, {{3}}, {{2, 2}}, {{2, 3, 2}}, {{2, 0}}}});
  add_case({.op = "repeat_interleave",
            .call = CALL(repeat_interleave(x[0], 3, {.dim = 1})),
            .oracle = taken(
                [](const Shape& s) {
                  Shape shape = s;
                  shape[1] *= 3;
                  return shape;
                },
                [](Place& p, const Shape&) { p[1] /= 3; }),
            .shapes = {{{2, 3}}, {{2, 1, 4}}, {{2, 0}}}});
  add_case({.op = "repeat_interleave",
            .variant = "flattened, a number for each element",
            .call = CALL(repeat_interleave(x[0], tensor({1, 0, 3, 2}, {.device = x[0].device()}),
                                           {.output_size = 6})),
            .oracle = taken([](const Shape&) { return Shape{6}; },
                            [](Place& p, const Shape& s) {
                              constexpr std::int64_t kFrom[] = {0, 2, 2, 2, 3, 3};
                              p = place_of(s, kFrom[p[0]]);
                            }),
            .shapes = {{{4}}, {{2, 2}}}});

  const auto neighbours = [](int dim) {
    return [=](const std::vector<Array>& x) {
      Shape shape = x[0].shape;
      shape[dim] = std::max<std::int64_t>(shape[dim] - 1, 0);
      const auto shifted = [&](std::int64_t by) {
        return moved(x[0], shape, [&](std::int64_t i) {
          Place place = place_of(shape, i);
          place[static_cast<std::size_t>(dim)] += by;
          return position_of(x[0].shape, place);
        });
      };
      Array y = shifted(1);
      const Array earlier = shifted(0);
      for (std::size_t i = 0; i < y.values.size(); ++i) y.values[i] -= earlier.values[i];
      return std::vector<Array>{y};
    };
  };
  add_case(
      {.op = "diff",
       .call = CALL(diff(x[0])),
       .oracle = [=](const std::vector<Array>& x) { return neighbours(x[0].shape.rank() - 1)(x); },
       .shapes = {{{7}}, {{3, 5}}, {{1}}, {{0}}, {{3, 0}}, {{2, 1, 4}}}});
  add_case({.op = "diff",
            .variant = "twice, along the first dimension",
            .call = CALL(diff(x[0], {.n = 2, .dim = 0})),
            .oracle = [=](const std::vector<Array>& x) { return neighbours(0)(neighbours(0)(x)); },
            .shapes = {{{7}}, {{4, 3}}, {{1, 2}}},
            .factor = 4});

  const Blocks dense{2, 3, 1, 0, 1, 1}, spread{2, 2, 2, 1, 2, 1};
  add_case({.op = "unfold",
            .call = CALL(unfold(x[0], {2, 3})),
            .oracle = unfolded(dense),
            .shapes = {{{2, 2, 3, 4}}, {{3, 2, 3}}, {{0, 1, 3, 3}}}});
  add_case({.op = "unfold",
            .variant = "dilated, padded, strided",
            .call = CALL(unfold(x[0], 2, {.dilation = 2, .padding = 1, .stride = {2, 1}})),
            .oracle = unfolded(spread),
            .shapes = {{{2, 2, 5, 4}}, {{1, 3, 3}}}});
  add_case({.op = "fold",
            .call = CALL(fold(x[0], {3, 4}, {2, 3})),
            .oracle = folded(dense, 3, 4),
            .shapes = {{{2, 12, 4}}, {{6, 4}}, {{0, 6, 4}}}});
  add_case({.op = "fold",
            .variant = "dilated, padded, strided",
            .call = CALL(fold(x[0], {5, 4}, 2, {.dilation = 2, .padding = 1, .stride = {2, 1}})),
            .oracle = folded(spread, 5, 4),
            .shapes = {{{2, 8, 12}}, {{4, 12}}}});

  add_case({.op = "pixel_shuffle",
            .call = CALL(pixel_shuffle(x[0], 2)),
            .oracle = taken(
                [](const Shape& s) {
                  Shape shape = s;
                  shape[s.rank() - 3] /= 4;
                  shape[s.rank() - 2] *= 2;
                  shape[s.rank() - 1] *= 2;
                  return shape;
                },
                [](Place& p, const Shape&) {
                  const std::size_t c = p.size() - 3;
                  p[c] = p[c] * 4 + p[c + 1] % 2 * 2 + p[c + 2] % 2;
                  p[c + 1] /= 2;
                  p[c + 2] /= 2;
                }),
            .shapes = {{{2, 8, 2, 3}}, {{4, 1, 2}}, {{2, 1, 4, 2, 2}}, {{0, 4, 2, 2}}}});
  add_case({.op = "pixel_unshuffle",
            .call = CALL(pixel_unshuffle(x[0], 2)),
            .oracle = taken(
                [](const Shape& s) {
                  Shape shape = s;
                  shape[s.rank() - 3] *= 4;
                  shape[s.rank() - 2] /= 2;
                  shape[s.rank() - 1] /= 2;
                  return shape;
                },
                [](Place& p, const Shape&) {
                  const std::size_t c = p.size() - 3;
                  p[c + 1] = p[c + 1] * 2 + p[c] % 4 / 2;
                  p[c + 2] = p[c + 2] * 2 + p[c] % 2;
                  p[c] /= 4;
                }),
            .shapes = {{{2, 2, 4, 6}}, {{1, 2, 2}}, {{2, 1, 2, 2, 4}}}});
});

}  // namespace
