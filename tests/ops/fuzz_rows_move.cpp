// Rows of the ops that join, repeat and move elements.
#include <algorithm>

#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

/** Draws tensors whose sizes usually agree except along one dimension. */
std::vector<Tensor> joinable(Draw& d, bool equal) {
  std::vector<Tensor> tensors;
  const Shape shape = d.shape(1, 4);
  const std::int64_t at = d.below(shape.rank());
  for (std::int64_t i = d.below(4); i > 0; --i) {
    Shape own = shape;
    if (!equal) own[at] = d.number(0, 3);
    if (d.chance(0.1)) own = d.shape();
    bool usable = true;
    for (const std::int64_t size : own) usable = usable && size >= 0 && size < 1000;
    if (usable) tensors.push_back(d.tensor(own, d.dtype()));
  }
  return tensors;
}

PadMode pad_mode(Draw& d) {
  constexpr PadMode kModes[] = {PadMode::constant, PadMode::reflect, PadMode::replicate,
                                PadMode::circular};
  return kModes[d.below(4)];
}

bool skipped(const Tensor& x) { return x.dim() == 1 && x.shape()[0] == 0; }

/** The result of hstack (rank 1) or vstack (rank 2). */
Expected joined(const std::vector<Tensor>& tensors, std::size_t rank) {
  std::optional<Sizes> shape;
  for (const Tensor& x : tensors) {
    Sizes own = sizes(x);
    while (own.size() < rank) own.insert(own.begin(), 1);
    const std::size_t at = rank == 2 || sizes(tensors[0]).size() < 2 ? 0 : 1;
    if (own.size() == 1 && own[0] == 0) {
      if (tensors.size() == 1) shape = own;
      continue;
    }
    if (at >= own.size()) return refused();
    if (!shape || shape == Sizes{0}) {
      shape = own;
      continue;
    }
    const Wide sum = shape->size() == own.size() ? (*shape)[at] + own[at] : 0;
    if (resized(*shape, static_cast<std::int64_t>(at), 0) !=
        resized(own, static_cast<std::int64_t>(at), 0))
      return refused();
    (*shape)[at] = sum;
  }
  if (!shape && !tensors.empty()) shape = Sizes{0};
  return gives(shape);
}

const Rows joins([] {
  add_row("cat", [](Draw& d) {
    const std::vector<Tensor> tensors = joinable(d, false);
    const std::int64_t dim = d.number(-2, 2);
    std::optional<Sizes> shape;
    bool fits = !tensors.empty();
    for (const Tensor& x : tensors) {
      if (x.dim() == 0) fits = false;
      if (skipped(x) || !fits) continue;
      const auto at = resolved(dim, x.shape().size());
      if (!at) {
        fits = false;
      } else if (!shape) {
        shape = sizes(x);
      } else {
        const Wide sum = (*shape)[std::min(*at, shape->size() - 1)] + sizes(x)[*at];
        fits = resized(*shape, dim, 0) == resized(sizes(x), dim, 0);
        shape = fits ? resized(*shape, dim, sum) : shape;
      }
    }
    if (fits && !shape && resolved(dim, 1)) shape = Sizes{0};
    return Trial{[=] { return list(cat(tensors, dim)); }, fits ? gives(shape) : refused()};
  });
  add_row("stack", [](Draw& d) {
    const std::vector<Tensor> tensors = joinable(d, true);
    const std::int64_t dim = d.number(-2, 2);
    bool fits = !tensors.empty();
    for (const Tensor& x : tensors) fits = fits && x.shape() == tensors[0].shape();
    Expected expected = refused();
    if (fits)
      if (const auto at = resolved(dim, tensors[0].shape().size() + 1)) {
        Sizes shape = sizes(tensors[0]);
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*at),
                     static_cast<Wide>(tensors.size()));
        expected = gives(shape);
      }
    return Trial{[=] { return list(stack(tensors, dim)); }, expected};
  });
  add_row("hstack", [](Draw& d) {
    const std::vector<Tensor> tensors = joinable(d, false);
    return Trial{[=] { return list(hstack(tensors)); }, joined(tensors, 1)};
  });
  add_row("vstack", [](Draw& d) {
    const std::vector<Tensor> tensors = joinable(d, false);
    return Trial{[=] { return list(vstack(tensors)); }, joined(tensors, 2)};
  });
  add_row("diff", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t n = d.number(0, 4), dim = d.dim(x.dim());
    const auto at = resolved(dim, x.shape().size());
    const bool fits = n >= 0 && x.dim() > 0 && at;
    const Wide left = std::max<Wide>(Wide{length_along(x, dim)} - n, 0);
    return Trial{[=] { return list(diff(x, {.n = n, .dim = dim})); },
                 fits ? gives(resized(sizes(x), dim, left)) : refused()};
  });
  add_row("repeat_interleave", [](Draw& d) {
    const Tensor x = d.tensor(d.short_shape(), d.dtype());
    RepeatInterleaveOptions options;
    if (d.flag()) options.dim = d.dim(x.dim());
    const std::int64_t times = d.number(0, 3);
    Expected expected = gives({Wide{x.numel()} * times});
    if (options.dim && x.dim() > 0)
      expected =
          gives(resized(sizes(x), *options.dim, Wide{length_along(x, *options.dim)} * times));
    if (options.dim && !resolved(*options.dim, 1) && x.dim() == 0) expected = refused();
    return Trial{[=] { return list(repeat_interleave(x, times, options)); },
                 times >= 0 ? expected : refused()};
  });
  add_row("repeat_interleave", [](Draw& d) {
    const Tensor x = d.tensor(d.short_shape(1, 3), d.dtype());
    const std::int64_t dim = d.dim(x.dim());
    const Tensor times = d.index(d.flag() ? Shape{length_along(x, dim)} : d.short_shape(0, 2), 4);
    return Trial{[=] { return list(repeat_interleave(x, times, {.dim = dim})); },
                 gives(resized(sizes(x), dim, kAny))};
  });
  add_row("tile", [](Draw& d) {
    const Tensor x = d.tensor(d.short_shape(), d.dtype());
    const Shape dims = d.raw_shape(static_cast<int>(d.below(4)), 0, 3);
    Sizes shape = sizes(x), times;
    for (const std::int64_t n : dims) times.push_back(n);
    const bool fits = none_negative(times);
    while (shape.size() < times.size()) shape.insert(shape.begin(), 1);
    while (times.size() < shape.size()) times.insert(times.begin(), 1);
    for (std::size_t i = 0; i < shape.size(); ++i) shape[i] *= times[i];
    return Trial{[=] { return list(tile(x, dims)); }, fits ? gives(shape) : refused()};
  });
  add_row("diag", [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 3), d.dtype());
    const std::int64_t diagonal = d.number(-3, 3);
    const Wide far = diagonal < 0 ? -Wide{diagonal} : Wide{diagonal};
    Expected expected = refused();
    if (x.dim() == 1) expected = gives({x.shape()[0] + far, x.shape()[0] + far});
    if (x.dim() == 2)
      expected =
          gives({std::max<Wide>(0, std::min(x.shape()[0] - std::max<Wide>(-Wide{diagonal}, 0),
                                            x.shape()[1] - std::max<Wide>(diagonal, 0)))});
    return Trial{[=] { return list(diag(x, diagonal)); }, expected};
  });
  add_row("flip", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::vector<std::int64_t> dims = d.numbers(2, -1, 2);
    return Trial{[=] { return list(flip(x, dims)); },
                 dims.empty() || reduced(sizes(x), dims, true) ? gives(sizes(x)) : refused()};
  });
  add_row("pad", [](Draw& d) {
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
    return Trial{[=] { return list(pad(x, padding, {.mode = mode, .value = value})); }, expected};
  });
  add_row("pixel_shuffle", [](Draw& d) {
    const std::int64_t r = d.number(0, 3);
    Shape shape = d.short_shape(1, 5);
    if (d.chance(0.7) && shape.rank() >= 3 && r < 4 && r > 0)
      shape[shape.rank() - 3] = r * r * d.below(3);
    const Tensor x = d.tensor(shape, d.dtype());
    Sizes out = sizes(x);
    const std::size_t c = out.size() - 3;
    const bool fits = out.size() >= 3 && r >= 1 && out[c] % (Wide{r} * r) == 0;
    if (fits) out[c] /= Wide{r} * r, out[c + 1] *= r, out[c + 2] *= r;
    return Trial{[=] { return list(pixel_shuffle(x, r)); }, fits ? gives(out) : refused()};
  });
  add_row("pixel_unshuffle", [](Draw& d) {
    const std::int64_t r = d.number(0, 3);
    Shape shape = d.short_shape(1, 5);
    if (d.chance(0.7) && shape.rank() >= 3 && r < 4 && r > 0)
      for (int i = 1; i < 3; ++i) shape[shape.rank() - i] = r * d.below(4);
    const Tensor x = d.tensor(shape, d.dtype());
    Sizes out = sizes(x);
    const std::size_t c = out.size() - 3;
    const bool fits = out.size() >= 3 && r >= 1 && out[c + 1] % r == 0 && out[c + 2] % r == 0;
    if (fits) out[c] *= Wide{r} * r, out[c + 1] /= r, out[c + 2] /= r;
    return Trial{[=] { return list(pixel_unshuffle(x, r)); }, fits ? gives(out) : refused()};
  });
  add_row("repeat", [](Draw& d) {
    const Tensor x = d.tensor();
    const Shape repeats = d.raw_shape(x.dim() + static_cast<int>(d.number(0, 1) > 0), 0, 3);
    Sizes shape = sizes(repeats);
    const bool fits = none_negative(shape);
    for (std::size_t i = 1; i <= x.shape().size(); ++i)
      shape[shape.size() - i] *= sizes(x)[x.shape().size() - i];
    return Trial{[=] { return list(repeat(x, repeats)); }, fits ? gives(shape) : refused()};
  });
  add_row("roll", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::vector<std::int64_t> shifts = d.numbers(3, -3, 3),
                                    dims = d.flag() ? std::vector<std::int64_t>{}
                                                    : d.numbers(3, -2, 2);
    return Trial{[=] { return list(roll(x, shifts, dims)); }, gives(sizes(x))};
  });
  add_row("trace", [](Draw& d) {
    const Tensor x = d.tensor();
    return Trial{[=] { return list(trace(x)); }, x.dim() == 2 ? gives(Sizes{}) : refused()};
  });
  add_row("tril", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t diagonal = d.number(-3, 3);
    return Trial{[=] { return list(tril(x, diagonal)); },
                 x.dim() >= 2 ? gives(sizes(x)) : refused()};
  });
  add_row("triu", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t diagonal = d.number(-3, 3);
    return Trial{[=] { return list(triu(x, diagonal)); },
                 x.dim() >= 2 ? gives(sizes(x)) : refused()};
  });
  add_row("one_hot", [](Draw& d) {
    const std::int64_t classes = d.number(-1, 5);
    const Tensor x = d.index(d.shape(), 5);
    Sizes shape = sizes(x);
    shape.push_back(classes == -1 ? kAny : Wide{classes});
    return Trial{[=] { return list(one_hot(x, classes)); },
                 classes >= 1 || classes == -1 ? gives(shape) : refused()};
  });
});

}  // namespace
