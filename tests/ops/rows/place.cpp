// Rows of the ops that move elements: padding, flips, rolls, repeats, pixel shuffles.
#include "../places.h"
#include "../row.h"

using namespace cases;
using namespace rows;
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

/** The differences of neighbours along a dimension. */
Oracle neighbours(int dim) {
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
}

PadMode pad_mode(FuzzDraw& d) {
  constexpr PadMode kModes[] = {PadMode::constant, PadMode::reflect, PadMode::replicate,
                                PadMode::circular};
  return kModes[d.below(4)];
}

const Rows border_rows("space", [] {
  auto pads =
      row("pad", CALL(pad(x[0], padding, o), const Place& padding, const PadOptions& o))
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.tensor();
            const PadMode mode = pad_mode(d);
            const std::vector<std::int64_t> padding = d.numbers(2 * x.shape().size(), -1, 3);
            const double value = d.real();
            Expected expected = refused();
            if (padding.size() % 2 == 0) {
              Sizes shape = sizes(x);
              for (std::size_t i = 0; i < padding.size(); ++i)
                shape[shape.size() - 1 - i / 2] += padding[i];
              if (none_negative(shape)) expected = gives(shape);
            }
            return Trial{call({x}, padding, {.mode = mode, .value = value}), expected};
          })
          .golden({"", "F.pad(x0, (1, 2))", "real(2, 3)"}, {1, 2}, {})
          .golden(
              {"value, several dimensions", "F.pad(x0, (1, 0, 2, 1), value=1.5)", "real(2, 3, 4)"},
              {1, 0, 2, 1}, {.value = 1.5})
          .golden({"crop", "F.pad(x0, (-1, 2, 1, -1))", "real(3, 4)"}, {-1, 2, 1, -1}, {})
          .golden({"reflect", "F.pad(x0, (2, 1, 1, 3), mode='reflect')", "real(2, 3, 4, 5)"},
                  {2, 1, 1, 3}, {.mode = PadMode::reflect})
          .golden({"replicate", "F.pad(x0, (2, 1, 0, 6), mode='replicate')", "real(2, 3, 4, 5)"},
                  {2, 1, 0, 6}, {.mode = PadMode::replicate})
          .golden({"circular", "F.pad(x0, (3, 1, 4, 2), mode='circular')", "real(2, 3, 4, 5)"},
                  {3, 1, 4, 2}, {.mode = PadMode::circular});
  const auto add_pad = [&](const char* variant, const Place& padding, const PadOptions& o,
                           const std::vector<std::vector<Shape>>& shapes) {
    pads.test({.variant = variant, .oracle = padded(padding, o.mode, o.value), .shapes = shapes},
              padding, o);
  };
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
});

const Rows move_rows("space", [] {
  row("flip", CALL(flip(x[0], dims), const Place& dims))
      .test({.oracle = taken(kept,
                             [](Place& p, const Shape& s) {
                               p.front() = s[0] - 1 - p.front();
                               if (p.size() > 1) p.back() = s.back() - 1 - p.back();
                             }),
             .shapes = {{{3, 4}}, {{2, 3, 2}}, {{0, 2}}}},
            {0, -1})
      .test({.variant = "one of one",
             .oracle = taken(kept, [](Place& p, const Shape& s) { p[0] = s[0] - 1 - p[0]; }),
             .shapes = {{{7}}, {{3, 2}}}},
            {0})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge();
        const std::vector<std::int64_t> dims = d.numbers(2, -1, 2);
        return Trial{call({x}, dims),
                     dims.empty() || reduced(sizes(x), dims, true) ? gives(sizes(x)) : refused()};
      })
      .golden({"", "torch.flip(x0, (0, -1))", "real(2, 3, 4)"}, {0, -1});
  row("roll", CALL(roll(x[0], shifts, dims), const Place& shifts, const Place& dims))
      .test({.oracle = taken(kept,
                             [](Place& p, const Shape& s) {
                               p[0] = (p[0] - 2 + 2 * s[0]) % s[0];
                               p[1] = (p[1] + 1) % s[1];
                             }),
             .shapes = {{{3, 4}}, {{2, 3, 2}}, {{0, 2}}}},
            {2, -1}, {0, 1})
      .test({.variant = "flattened, more than once around",
             .oracle =
                 [](const std::vector<Array>& x) {
                   const std::int64_t n = x[0].numel();
                   return std::vector<Array>{moved(
                       x[0], x[0].shape, [&](std::int64_t i) { return ((i - 14) % n + n) % n; })};
                 }},
            {14}, {})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const std::vector<std::int64_t> shifts = d.numbers(3, -3, 3),
                                        dims = d.flag() ? std::vector<std::int64_t>{}
                                                        : d.numbers(3, -2, 2);
        return Trial{call({x}, shifts, dims), gives(sizes(x))};
      })
      .golden({"", "torch.roll(x0, (2, -1), (0, 1))", "real(3, 4)"}, {2, -1}, {0, 1})
      .golden({"flat", "torch.roll(x0, 14)", "real(3, 4)"}, {14}, {});
  row("repeat", CALL(repeat(x[0], repeats), const Shape& repeats))
      .test({.oracle = taken(
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
             .shapes = {{Shape{}}, {{3}}, {{2, 2}}, {{2, 3, 2}}, {{2, 0}}}},
            {2, 1, 3})
      .test({.variant = "no copy at all",
             .oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{{{0, 2 * x[0].shape[1]}, {}}};
                 },
             .shapes = {{{3, 2}}}},
            {0, 2})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const Shape repeats = d.raw_shape(x.dim() + static_cast<int>(d.number(0, 1) > 0), 0, 3);
        Sizes shape = sizes(repeats);
        const bool fits = none_negative(shape);
        for (std::size_t i = 1; i <= x.shape().size(); ++i)
          shape[shape.size() - i] *= sizes(x)[x.shape().size() - i];
        return Trial{call({x}, repeats), fits ? gives(shape) : refused()};
      })
      .golden({"", "x0.repeat(2, 1, 3)", "real(3, 2)"}, {2, 1, 3});
  row("tile", CALL(tile(x[0], dims), const Shape& dims))
      .test({.oracle = taken(
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
             .shapes = {{Shape{}}, {{3}}, {{2, 2}}, {{2, 3, 2}}, {{2, 0}}}},
            {2, 3})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor(d.short_shape(), d.dtype());
        const Shape dims = d.raw_shape(static_cast<int>(d.below(4)), 0, 3);
        Sizes shape = sizes(x), times;
        for (const std::int64_t n : dims) times.push_back(n);
        const bool fits = none_negative(times);
        while (shape.size() < times.size()) shape.insert(shape.begin(), 1);
        while (times.size() < shape.size()) times.insert(times.begin(), 1);
        for (std::size_t i = 0; i < shape.size(); ++i) shape[i] *= times[i];
        return Trial{call({x}, dims), fits ? gives(shape) : refused()};
      })
      .golden({"", "torch.tile(x0, (2, 3))", "real(2, 2, 2)"}, {2, 3});
  row("repeat_interleave",
      CALL(repeat_interleave(x[0], times, o), std::int64_t times, const RepeatInterleaveOptions& o))
      .test({.oracle = taken(
                 [](const Shape& s) {
                   Shape shape = s;
                   shape[1] *= 3;
                   return shape;
                 },
                 [](Place& p, const Shape&) { p[1] /= 3; }),
             .shapes = {{{2, 3}}, {{2, 1, 4}}, {{2, 0}}}},
            3, {.dim = 1})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor(d.short_shape(), d.dtype());
        RepeatInterleaveOptions options;
        if (d.flag()) options.dim = d.dim(x.dim());
        const std::int64_t times = d.number(0, 3);
        Expected expected = gives({Wide{x.numel()} * times});
        if (options.dim && x.dim() > 0)
          expected =
              gives(resized(sizes(x), *options.dim, Wide{length_along(x, *options.dim)} * times));
        if (options.dim && !resolved(*options.dim, 1) && x.dim() == 0) expected = refused();
        return Trial{call({x}, times, options), times >= 0 ? expected : refused()};
      })
      .golden({"", "torch.repeat_interleave(x0, 3, 1)", "real(2, 3)"}, 3, {.dim = 1})
      .golden({"flat", "torch.repeat_interleave(x0, 2)", "real(2, 3)"}, 2, {});
  row("repeat_interleave", CALL(repeat_interleave(x[0], x[1], o), const RepeatInterleaveOptions& o))
      .test({.variant = "flattened, a number for each element",
             .call = CALL(repeat_interleave(x[0], tensor({1, 0, 3, 2}, {.device = x[0].device()}),
                                            {.output_size = 6})),
             .oracle = taken([](const Shape&) { return Shape{6}; },
                             [](Place& p, const Shape& s) {
                               constexpr std::int64_t kFrom[] = {0, 2, 2, 2, 3, 3};
                               p = place_of(s, kFrom[p[0]]);
                             }),
             .shapes = {{{4}}, {{2, 2}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor(d.short_shape(1, 3), d.dtype());
        const std::int64_t dim = d.dim(x.dim());
        const Tensor times =
            d.index(d.flag() ? Shape{length_along(x, dim)} : d.short_shape(0, 2), 4);
        return Trial{call({x, times}, {.dim = dim}), gives(resized(sizes(x), dim, kAny))};
      })
      .golden({"tensor", "torch.repeat_interleave(x0, x1, 0)", "real(4, 2), given([1, 0, 3, 2])"},
              {.dim = 0});
  row("diff",
      CALL(diff(x[0], {.n = n, .dim = dim, .prepend = optional(x, 1), .append = optional(x, 2)}),
           std::int64_t n, std::int64_t dim))
      .test({.oracle =
                 [=](const std::vector<Array>& x) { return neighbours(x[0].shape.rank() - 1)(x); },
             .shapes = {{{7}}, {{3, 5}}, {{1}}, {{0}}, {{3, 0}}, {{2, 1, 4}}}},
            1, -1)
      .test({.variant = "twice, along the first dimension",
             .oracle = [=](const std::vector<Array>& x) { return neighbours(0)(neighbours(0)(x)); },
             .shapes = {{{7}}, {{4, 3}}, {{1, 2}}},
             .factor = 4},
            2, 0)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const std::int64_t n = d.number(0, 4), dim = d.dim(x.dim());
        const auto at = resolved(dim, x.shape().size());
        const bool fits = n >= 0 && x.dim() > 0 && at;
        const Wide left = std::max<Wide>(Wide{length_along(x, dim)} - n, 0);
        return Trial{call({x}, n, dim), fits ? gives(resized(sizes(x), dim, left)) : refused()};
      })
      .golden({"", "torch.diff", "real(3, 5)"}, 1, -1)
      .golden({"options", "torch.diff(x0, 2, 0, x1, x2)", "real(4, 2), real(1, 2), real(2, 2)"}, 2,
              0);
});

const Rows shuffle_rows("space", [] {
  row("pixel_shuffle", CALL(pixel_shuffle(x[0], factor), std::int64_t factor))
      .test({.oracle = taken(
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
             .shapes = {{{2, 8, 2, 3}}, {{4, 1, 2}}, {{2, 1, 4, 2, 2}}, {{0, 4, 2, 2}}}},
            2)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const std::int64_t r = d.number(0, 3);
        Shape shape = d.short_shape(1, 5);
        if (d.chance(0.7) && shape.rank() >= 3 && r < 4 && r > 0)
          shape[shape.rank() - 3] = r * r * d.below(3);
        const Tensor x = d.tensor(shape, d.dtype());
        Sizes out = sizes(x);
        const std::size_t c = out.size() - 3;
        const bool fits = out.size() >= 3 && r >= 1 && out[c] % (Wide{r} * r) == 0;
        if (fits) out[c] /= Wide{r} * r, out[c + 1] *= r, out[c + 2] *= r;
        return Trial{call({x}, r), fits ? gives(out) : refused()};
      })
      .golden({"", "F.pixel_shuffle(x0, 2)", "real(2, 8, 2, 3)"}, 2);
  row("pixel_unshuffle", CALL(pixel_unshuffle(x[0], factor), std::int64_t factor))
      .test({.oracle = taken(
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
             .shapes = {{{2, 2, 4, 6}}, {{1, 2, 2}}, {{2, 1, 2, 2, 4}}}},
            2)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const std::int64_t r = d.number(0, 3);
        Shape shape = d.short_shape(1, 5);
        if (d.chance(0.7) && shape.rank() >= 3 && r < 4 && r > 0)
          for (int i = 1; i < 3; ++i) shape[shape.rank() - i] = r * d.below(4);
        const Tensor x = d.tensor(shape, d.dtype());
        Sizes out = sizes(x);
        const std::size_t c = out.size() - 3;
        const bool fits = out.size() >= 3 && r >= 1 && out[c + 1] % r == 0 && out[c + 2] % r == 0;
        if (fits) out[c] *= Wide{r} * r, out[c + 1] /= r, out[c + 2] /= r;
        return Trial{call({x}, r), fits ? gives(out) : refused()};
      })
      .golden({"", "F.pixel_unshuffle(x0, 3)", "real(2, 1, 6, 3)"}, 3);
});

}  // namespace
