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
