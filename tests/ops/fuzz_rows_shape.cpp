// Rows of the views and of the ops that move, join, index and order elements.
#include <algorithm>

#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

/** A shape of numbers that may be out of range. */
Shape raw_shape(Draw& d, int rank, std::int64_t low = 0, std::int64_t high = 4) {
  Shape shape;
  for (int i = 0; i < rank; ++i) shape.push_back(d.number(low, high));
  return shape;
}

bool none_negative(const Sizes& sizes) {
  return std::all_of(sizes.begin(), sizes.end(), [](Wide size) { return size >= 0; });
}

/** The shape asked for, its one -1 completed to give `total` elements. */
std::optional<Sizes> completed(Sizes wanted, Wide total) {
  if (std::count(wanted.begin(), wanted.end(), Wide{-1}) > 1) return std::nullopt;
  const auto open = std::find(wanted.begin(), wanted.end(), Wide{-1});
  if (open != wanted.end()) {
    *open = 1;
    const Wide known = none_negative(wanted) ? count(wanted) : 0;
    if (known == 0 || total % known != 0) return std::nullopt;
    *open = total / known;
  }
  return none_negative(wanted) && count(wanted) == total ? std::optional(wanted) : std::nullopt;
}

/** A shape of x's elements in other dimensions, or one that does not fit. */
Shape other_shape(Draw& d, const Tensor& x) {
  if (d.chance(0.4)) return raw_shape(d, static_cast<int>(d.below(4)), -1, 6);
  Shape shape = x.shape();
  if (shape.rank() > 0 && d.flag()) std::reverse(shape.begin(), shape.end());
  if (shape.rank() > 0 && d.flag()) shape[d.below(shape.rank())] = -1;
  return shape;
}

/** For calls that make one view for each element of a dimension. */
Shape no_longer_than(std::int64_t most, Shape shape) {
  for (std::int64_t& size : shape) size = std::min(size, most);
  return shape;
}

/** Start or end of a range along `size` elements, as slice counts them. */
Wide clamped(Wide i, Wide size) { return std::clamp<Wide>(i < 0 ? i + size : i, 0, size); }

const Rows views([] {
  add_row("as_strided", [](Draw& d) {
    const Tensor x = d.tensor();
    const int rank = static_cast<int>(d.below(4));
    const Shape shape = raw_shape(d, rank), strides = raw_shape(d, rank);
    const std::int64_t offset = d.number(-1, 2);
    return Trial{[=] { return list(x.as_strided(shape, strides, offset)); },
                 none_negative(sizes(shape)) ? gives(sizes(shape)) : refused()};
  });
  add_row("diagonal", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t offset = d.number(-3, 3), a = d.dim(x.dim()), b = d.dim(x.dim());
    const auto first = resolved(a, x.shape().size()), second = resolved(b, x.shape().size());
    Expected expected = refused();
    if (x.dim() >= 2 && first && second && first != second) {
      Sizes shape = sizes(x);
      const Wide rows = shape[*first] - std::max<Wide>(-Wide{offset}, 0),
                 columns = shape[*second] - std::max<Wide>(offset, 0);
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(std::max(*first, *second)));
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(std::min(*first, *second)));
      shape.push_back(std::max<Wide>(0, std::min(rows, columns)));
      expected = gives(shape);
    }
    return Trial{[=] { return list(x.diagonal(offset, a, b)); }, expected};
  });
  add_row("expand", [](Draw& d) {
    const Tensor x = d.tensor();
    Shape wanted = raw_shape(d, static_cast<int>(d.below(3)), -1, 3);
    if (d.flag())
      for (const std::int64_t size : x.shape()) wanted.push_back(size == 1 ? d.number(-1, 5) : size);
    Sizes shape = sizes(wanted);
    bool fits = wanted.rank() >= x.dim();
    for (int i = 0; fits && i < x.dim(); ++i) {
      Wide& size = shape[shape.size() - x.shape().size() + static_cast<std::size_t>(i)];
      if (size == -1) size = x.shape()[i];
      fits = size == x.shape()[i] || x.shape()[i] == 1;
    }
    return Trial{[=] { return list(x.expand(wanted)); },
                 fits && none_negative(shape) ? gives(shape) : refused()};
  });
  add_row("permute", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    std::vector<std::int64_t> order;
    for (int i = 0; i < x.dim(); ++i) order.push_back(i);
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(d.below(static_cast<std::int64_t>(i)))]);
    if (d.chance(0.3)) order = d.numbers(4, -3, 3);
    const auto all = reduced(sizes(x), order, false);
    Expected expected = refused();
    if (static_cast<int>(order.size()) == x.dim() && all) {
      Sizes shape;
      for (const std::int64_t i : order) shape.push_back(sizes(x)[*resolved(i, order.size())]);
      expected = gives(shape);
    }
    return Trial{[=] { return list(x.permute(order)); }, expected};
  });
  add_row("permute", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t a = d.dim(x.dim()), b = d.dim(x.dim());
    const auto first = resolved(a, x.shape().size()), second = resolved(b, x.shape().size());
    Sizes shape = sizes(x);
    if (first && second && !shape.empty()) std::swap(shape[*first], shape[*second]);
    return Trial{[=] { return list(x.transpose(a, b)); }, first && second ? gives(shape) : refused()};
  });
  add_row("select", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t dim = d.dim(x.dim()), index = d.number(-3, 3);
    const auto at = resolved(dim, x.shape().size());
    Sizes shape = sizes(x);
    Expected expected = refused();
    if (x.dim() > 0 && at && index >= -shape[*at] && index < shape[*at]) {
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*at));
      expected = gives(shape);
    }
    return Trial{[=] { return list(x.select(dim, index)); }, expected};
  });
  add_row("slice", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t dim = d.dim(x.dim()), start = d.number(-3, 3), end = d.number(-3, 5),
                       step = d.number(0, 3);
    const auto at = resolved(dim, x.shape().size());
    Expected expected = refused();
    if (x.dim() > 0 && at && step > 0) {
      const Wide size = sizes(x)[*at], first = clamped(start, size),
                 length = std::max<Wide>(0, clamped(end, size) - first);
      expected = gives(resized(sizes(x), dim, (length + step - 1) / step));
    }
    return Trial{[=] { return list(x.slice(dim, start, end, step)); }, expected};
  });
  add_row("slice", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t dim = d.dim(x.dim()), start = d.number(-3, 3), length = d.number(-1, 3);
    const auto at = resolved(dim, x.shape().size());
    Expected expected = refused();
    if (x.dim() > 0 && at && length >= 0) {
      const Wide size = sizes(x)[*at], first = start < 0 ? start + size : start;
      if (first >= 0 && first + length <= size) expected = gives(resized(sizes(x), dim, length));
    }
    return Trial{[=] { return list(x.narrow(dim, start, length)); }, expected};
  });
  add_row("slice", [](Draw& d) {
    const Tensor x = d.tensor(no_longer_than(9, d.shape()), d.dtype());
    const std::int64_t dim = d.dim(x.dim()), size = d.number(1, 3);
    const bool chunks = d.flag();
    const auto at = resolved(dim, x.shape().size());
    Expected expected = refused();
    const Wide whole = x.dim() > 0 && at ? sizes(x)[*at] : 0;
    if (x.dim() > 0 && at && size > 0) {
      const Wide piece = chunks ? std::max<Wide>((whole + size - 1) / size, 1) : size;
      expected = std::vector<Sizes>{};
      for (Wide first = 0; first == 0 || first < whole; first += piece)
        expected->push_back(*resized(sizes(x), dim, std::min(piece, whole - first)));
    }
    return Trial{[=] { return chunks ? x.chunk(size, dim) : x.split(size, dim); }, expected};
  });
  add_row("select", [](Draw& d) {
    const Tensor x = d.tensor(no_longer_than(9, d.shape()), d.dtype());
    const std::int64_t dim = d.dim(x.dim());
    const auto at = resolved(dim, x.shape().size());
    Expected expected = refused();
    if (x.dim() > 0 && at) {
      Sizes shape = sizes(x);
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*at));
      expected = std::vector<Sizes>(static_cast<std::size_t>(sizes(x)[*at]), shape);
    }
    return Trial{[=] { return x.unbind(dim); }, expected};
  });
  add_row("view", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const Shape wanted = other_shape(d, x);
    const bool copies = d.flag();
    return Trial{[=] { return list(copies ? x.reshape(wanted) : x.view(wanted)); },
                 gives(completed(sizes(wanted), count(sizes(x))))};
  });
  add_row("view", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t start = d.dim(x.dim()), end = d.dim(x.dim());
    const auto first = resolved(start, x.shape().size()), last = resolved(end, x.shape().size());
    Expected expected = refused();
    if (first && last && *first <= *last) {
      const Sizes whole = sizes(x);
      Sizes shape(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(*first)), merged;
      for (std::size_t i = *first; i <= *last && i < whole.size(); ++i) merged.push_back(whole[i]);
      shape.push_back(count(merged));
      for (std::size_t i = *last + 1; i < whole.size(); ++i) shape.push_back(whole[i]);
      expected = gives(shape);
    }
    return Trial{[=] { return list(x.flatten(start, end)); }, expected};
  });
  add_row("view", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t dim = d.dim(x.dim());
    const Shape wanted = raw_shape(d, static_cast<int>(d.below(4)), -1, 3);
    const auto at = resolved(dim, x.shape().size());
    Expected expected = refused();
    if (x.dim() > 0 && at)
      if (const auto inner = completed(sizes(wanted), sizes(x)[*at])) {
        Sizes shape = sizes(x);
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*at));
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*at), inner->begin(), inner->end());
        expected = gives(shape);
      }
    return Trial{[=] { return list(x.unflatten(dim, wanted)); }, expected};
  });
  add_row("view", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t dim = d.number(-x.dim() - 1, x.dim());
    const auto at = resolved(dim, x.shape().size() + 1);
    Sizes shape = sizes(x);
    if (at) shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*at), 1);
    return Trial{[=] { return list(x.unsqueeze(dim)); }, at ? gives(shape) : refused()};
  });
  add_row("windows", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t dim = d.dim(x.dim()), size = d.number(0, 4), step = d.number(0, 3);
    const auto at = resolved(dim, x.shape().size());
    Expected expected = refused();
    const Wide length = x.dim() == 0 ? 1 : at ? sizes(x)[*at] : 0;
    if (at && size >= 0 && size <= length && step > 0) {
      Sizes shape = *resized(sizes(x), dim, (length - size) / step + 1);
      shape.push_back(size);
      expected = gives(shape);
    }
    return Trial{[=] { return list(x.unfold(dim, size, step)); }, expected};
  });
});

// ---- joining, moving ---------------------------------------------------------------------------

/** Sizes that agree but along one dimension, mostly. */
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
  constexpr PadMode kModes[] = {PadMode::constant, PadMode::reflect, PadMode::replicate, PadMode::circular};
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
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*at), static_cast<Wide>(tensors.size()));
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
      expected = gives({std::max<Wide>(0, std::min(x.shape()[0] - std::max<Wide>(-Wide{diagonal}, 0),
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
      for (std::size_t i = 0; i < padding.size(); ++i) shape[shape.size() - 1 - i / 2] += padding[i];
      if (none_negative(shape)) expected = gives(shape);
    }
    return Trial{[=] { return list(pad(x, padding, {.mode = mode, .value = value})); }, expected};
  });
  add_row("pixel_shuffle", [](Draw& d) {
    const std::int64_t r = d.number(0, 3);
    Shape shape = no_longer_than(9, d.shape(1, 5));
    if (d.chance(0.7) && shape.rank() >= 3 && r < 4 && r > 0) shape[shape.rank() - 3] = r * r * d.below(3);
    const Tensor x = d.tensor(shape, d.dtype());
    Sizes out = sizes(x);
    const std::size_t c = out.size() - 3;
    const bool fits = out.size() >= 3 && r >= 1 && out[c] % (Wide{r} * r) == 0;
    if (fits) out[c] /= Wide{r} * r, out[c + 1] *= r, out[c + 2] *= r;
    return Trial{[=] { return list(pixel_shuffle(x, r)); }, fits ? gives(out) : refused()};
  });
  add_row("pixel_unshuffle", [](Draw& d) {
    const std::int64_t r = d.number(0, 3);
    Shape shape = no_longer_than(9, d.shape(1, 5));
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
    const Shape repeats = raw_shape(d, x.dim() + static_cast<int>(d.number(0, 1) > 0), 0, 3);
    Sizes shape = sizes(repeats);
    const bool fits = none_negative(shape);
    for (std::size_t i = 1; i <= x.shape().size(); ++i)
      shape[shape.size() - i] *= sizes(x)[x.shape().size() - i];
    return Trial{[=] { return list(repeat(x, repeats)); }, fits ? gives(shape) : refused()};
  });
  add_row("roll", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::vector<std::int64_t> shifts = d.numbers(3, -3, 3),
                                    dims = d.flag() ? std::vector<std::int64_t>{} : d.numbers(3, -2, 2);
    return Trial{[=] { return list(roll(x, shifts, dims)); }, gives(sizes(x))};
  });
  add_row("trace", [](Draw& d) {
    const Tensor x = d.tensor();
    return Trial{[=] { return list(trace(x)); }, x.dim() == 2 ? gives(Sizes{}) : refused()};
  });
  add_row("tril", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t diagonal = d.number(-3, 3);
    return Trial{[=] { return list(tril(x, diagonal)); }, x.dim() >= 2 ? gives(sizes(x)) : refused()};
  });
  add_row("triu", [](Draw& d) {
    const Tensor x = d.maybe_huge();
    const std::int64_t diagonal = d.number(-3, 3);
    return Trial{[=] { return list(triu(x, diagonal)); }, x.dim() >= 2 ? gives(sizes(x)) : refused()};
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

// ---- indices -----------------------------------------------------------------------------------

/** The size of x along dim, where that dimension exists; 1 elsewhere. */
std::int64_t length_along(const Tensor& x, std::int64_t dim) {
  const auto at = resolved(dim, x.shape().size());
  return at && x.dim() > 0 ? x.shape()[static_cast<std::int64_t>(*at)] : 1;
}

/** A shape of x's rank that is no larger but along dim. */
Shape index_shape(Draw& d, const Tensor& x, std::int64_t dim) {
  if (d.chance(0.1)) return d.shape();
  Shape shape = x.shape();
  for (std::int64_t& size : shape)
    if (size < 1000 && d.flag()) size = std::min<std::int64_t>(size, 1 + d.below(3));
  if (const auto at = resolved(dim, shape.size()); at && shape.rank() > 0)
    shape[static_cast<std::int64_t>(*at)] = d.below(5);
  return shape;
}

template <class F> void add_rows_by_index(const char* op, F) {
  add_row(op, [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const bool in_place = d.flag();
    const std::int64_t rows = d.below(4);
    const Tensor index = d.index(d.chance(0.1) ? d.shape() : Shape{rows}, length_along(x, dim));
    Shape source = x.shape();
    if (const auto at = resolved(dim, source.size()); at && source.rank() > 0)
      source[static_cast<std::int64_t>(*at)] = rows;
    const Tensor src = d.chance(0.1) ? d.tensor() : d.tensor(source, x.dtype());
    return Trial{[=] { return list(F{}(in_place ? x.detach() : x, dim, index, src, in_place)); },
                 resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
  });
}

struct IndexAdd {
  Tensor operator()(const Tensor& x, std::int64_t dim, const Tensor& i, const Tensor& src, bool here) const {
    return here ? index_add_(x, dim, i, src) : index_add(x, dim, i, src);
  }
};
struct IndexCopy {
  Tensor operator()(const Tensor& x, std::int64_t dim, const Tensor& i, const Tensor& src, bool here) const {
    return here ? index_copy_(x, dim, i, src) : index_copy(x, dim, i, src);
  }
};
struct IndexFill {
  Tensor operator()(const Tensor& x, std::int64_t dim, const Tensor& i, const Tensor&, bool here) const {
    return here ? index_fill_(x, dim, i, 2.5) : index_fill(x, dim, i, 2.5);
  }
};

struct Scatter {
  Tensor operator()(const Tensor& x, std::int64_t dim, const Tensor& i, const Tensor& src, bool here) const {
    return here ? scatter_(x, dim, i, src) : scatter(x, dim, i, src);
  }
};
struct ScatterAdd {
  Tensor operator()(const Tensor& x, std::int64_t dim, const Tensor& i, const Tensor& src, bool here) const {
    return here ? scatter_add_(x, dim, i, src) : scatter_add(x, dim, i, src);
  }
};

template <class F> void add_scatter(const char* op, F) {
  add_row(op, [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const Shape shape = index_shape(d, x, dim);
    const bool in_place = d.flag();
    const Tensor index = d.index(shape, length_along(x, dim));
    const Tensor src = d.tensor(d.chance(0.1) ? d.shape() : shape, x.dtype());
    return Trial{[=] { return list(F{}(in_place ? x.detach() : x, dim, index, src, in_place)); },
                 resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
  });
}

/** Index tensors, masks and holes for the dimensions of x. */
std::vector<Tensor> some_indices(Draw& d, const Tensor& x) {
  std::vector<Tensor> indices;
  const Shape shape = d.shape(0, 2);
  for (int i = 0; i < x.dim() && d.chance(0.7); ++i) {
    const double kind = d.real(0, 1);
    if (kind < 0.2)
      indices.push_back({});
    else if (kind < 0.4)
      indices.push_back(d.mask(d.chance(0.1) ? d.shape() : Shape{x.shape()[i]}));
    else
      indices.push_back(d.index(d.like(shape), x.shape()[i]));
  }
  return indices;
}

const Rows by_index([] {
  add_rows_by_index("index_add", IndexAdd{});
  add_rows_by_index("index_copy", IndexCopy{});
  add_rows_by_index("index_fill", IndexFill{});
  add_scatter("scatter", Scatter{});
  add_scatter("scatter_add", ScatterAdd{});
  add_row("gather", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const Tensor index = d.index(index_shape(d, x, dim), length_along(x, dim));
    return Trial{[=] { return list(gather(x, dim, index)); },
                 resolved(dim, x.shape().size()) ? gives(sizes(index)) : refused()};
  });
  add_row("take_along_dim", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const Tensor index = d.index(index_shape(d, x, dim), length_along(x, dim));
    Expected expected = refused();
    if (resolved(dim, x.shape().size()) && x.dim() == index.dim()) {
      const auto a = resized(sizes(x), dim, 1), b = resized(sizes(index), dim, 1);
      if (const auto both = broadcast(a, *b)) expected = gives(resized(*both, dim, length_along(index, dim)));
    }
    return Trial{[=] { return list(take_along_dim(x, index, dim)); }, expected};
  });
  add_row("index_select", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const Tensor index = d.index(d.chance(0.1) ? d.shape() : Shape{d.below(4)}, length_along(x, dim));
    return Trial{[=] { return list(index_select(x, dim, index)); },
                 index.dim() <= 1 ? gives(resized(sizes(x), dim, count(sizes(index)))) : refused()};
  });
  add_row("embedding", [](Draw& d) {
    const Tensor weight = d.floats(d.chance(0.9) ? d.shape(2, 2) : d.shape());
    const Tensor index = d.index(d.shape(0, 3), weight.dim() > 0 ? weight.shape()[0] : 1);
    const std::int64_t padding = d.number(-2, 3);
    const EmbeddingOptions options{.padding_idx = d.flag() ? std::optional(padding) : std::nullopt,
                                   .scale_grad_by_freq = d.flag()};
    Sizes shape = sizes(index);
    if (weight.dim() == 2) shape.push_back(weight.shape()[1]);
    return Trial{[=] { return list(embedding(index, weight, options)); },
                 weight.dim() == 2 ? gives(shape) : refused()};
  });
  add_row("index", [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 4), d.dtype());
    const std::vector<Tensor> indices = some_indices(d, x);
    // Masks make sizes depend on values: the number of dimensions is a matter of the op's other
    // tests.
    return Trial{[=] {
                   index(x, indices);
                   return std::vector<Tensor>{};
                 },
                 std::vector<Sizes>{}};
  });
  add_row("index_put", [](Draw& d) {
    const Tensor x = d.tensor(d.shape(1, 4), d.dtype());
    const std::vector<Tensor> indices = some_indices(d, x);
    const Tensor values = d.tensor(d.shape(0, 1), x.dtype());
    const IndexPutOptions options{d.flag()};
    const bool in_place = d.flag();
    return Trial{[=] {
                   return list(in_place ? index_put_(x.detach(), indices, values, options)
                                        : index_put(x, indices, values, options));
                 },
                 gives(sizes(x))};
  });
  add_row("masked_scatter", [](Draw& d) {
    const Tensor x = d.tensor(), m = d.mask(d.like(x.shape())), source = d.tensor(d.shape(), x.dtype());
    return Trial{[=] { return list(masked_scatter(x, m, source)); }, gives(broadcast(sizes(x), sizes(m)))};
  });
  add_row("masked_select", [](Draw& d) {
    const Tensor x = d.tensor(), m = d.mask(d.like(x.shape()));
    return Trial{[=] { return list(masked_select(x, m)); },
                 broadcast(sizes(x), sizes(m)) ? gives(Sizes{kAny}) : refused()};
  });
  add_row("nonzero", [](Draw& d) {
    const Tensor x = d.tensor();
    return Trial{[=] { return list(nonzero(x)); }, gives(Sizes{kAny, x.dim()})};
  });
  add_row("unique", [](Draw& d) {
    const Tensor x = d.tensor();
    return Trial{[=] {
                   const UniqueResult r = unique(x, {.return_inverse = true, .return_counts = true});
                   return std::vector<Tensor>{r.values, r.inverse, r.counts};
                 },
                 std::vector<Sizes>{{kAny}, sizes(x), {kAny}}};
  });
});

// ---- order -------------------------------------------------------------------------------------

/** With dim reduced to `size` elements, or gone. */
Expected along(const Tensor& x, std::int64_t dim, bool keepdim) {
  return gives_both(reduced(sizes(x), {dim}, keepdim));
}

const Rows order([] {
  add_row("sort", [](Draw& d) {
    const Tensor x = d.tensor();
    const SortOptions options{.dim = d.dim(x.dim()), .descending = d.flag()};
    return Trial{[=] { return list(sort(x, options)); },
                 resolved(options.dim, x.shape().size()) ? gives_both(sizes(x)) : refused()};
  });
  add_row("argsort", [](Draw& d) {
    const Tensor x = d.tensor();
    const SortOptions options{.dim = d.dim(x.dim()), .descending = d.flag()};
    return Trial{[=] { return list(argsort(x, options)); },
                 resolved(options.dim, x.shape().size()) ? gives(sizes(x)) : refused()};
  });
  add_row("topk", [](Draw& d) {
    const Tensor x = d.tensor();
    const TopkOptions options{.dim = d.dim(x.dim()), .largest = d.flag(), .sorted = d.flag()};
    const std::int64_t k = d.number(0, 4);
    Expected expected = refused();
    if (resolved(options.dim, x.shape().size()) && k >= 0 && k <= length_along(x, options.dim)) {
      expected = gives_both(resized(sizes(x), options.dim, k));
      if (x.dim() == 0 && k == 0) expected = gives_both(Sizes{0});
    }
    return Trial{[=] { return list(topk(x, k, options)); }, expected};
  });
  add_row("kthvalue", [](Draw& d) {
    const Tensor x = d.tensor();
    const KthvalueOptions options{.dim = d.dim(x.dim()), .keepdim = d.flag()};
    const std::int64_t k = d.number(0, 4);
    const bool fits = resolved(options.dim, x.shape().size()) && k >= 1 && k <= length_along(x, options.dim);
    return Trial{[=] { return list(kthvalue(x, k, options)); },
                 fits ? along(x, options.dim, options.keepdim) : refused()};
  });
  add_row("median", [](Draw& d) {
    const Tensor x = d.tensor();
    return Trial{[=] { return list(median(x)); }, gives(Sizes{})};
  });
  add_row("median", [](Draw& d) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim());
    const bool keepdim = d.flag();
    return Trial{[=] { return list(median(x, dim, {keepdim})); }, along(x, dim, keepdim)};
  });
});

}  // namespace
