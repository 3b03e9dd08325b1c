// Rows of the views.
#include <algorithm>

#include "fuzz.h"

using namespace fuzz;
using namespace mezzo;

namespace {

/** Returns the wanted shape with its one -1 completed to give `total` elements. */
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

/** Draws a shape with x's number of elements, or one that does not fit. */
Shape other_shape(Draw& d, const Tensor& x) {
  if (d.chance(0.4)) return d.raw_shape(static_cast<int>(d.below(4)), -1, 6);
  Shape shape = x.shape();
  if (shape.rank() > 0 && d.flag()) std::reverse(shape.begin(), shape.end());
  if (shape.rank() > 0 && d.flag()) shape[d.below(shape.rank())] = -1;
  return shape;
}

/** Clamps a start or end of a range along `size` elements as slice does. */
Wide clamped(Wide i, Wide size) { return std::clamp<Wide>(i < 0 ? i + size : i, 0, size); }

const Rows views([] {
  add_row("as_strided", [](Draw& d) {
    const Tensor x = d.tensor();
    const int rank = static_cast<int>(d.below(4));
    const Shape shape = d.raw_shape(rank), strides = d.raw_shape(rank);
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
    Shape wanted = d.raw_shape(static_cast<int>(d.below(3)), -1, 3);
    if (d.flag())
      for (const std::int64_t size : x.shape())
        wanted.push_back(size == 1 ? d.number(-1, 5) : size);
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
      std::swap(order[i - 1],
                order[static_cast<std::size_t>(d.below(static_cast<std::int64_t>(i)))]);
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
    return Trial{[=] { return list(x.transpose(a, b)); },
                 first && second ? gives(shape) : refused()};
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
    const Tensor x = d.tensor(d.short_shape(), d.dtype());
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
    const Tensor x = d.tensor(d.short_shape(), d.dtype());
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
    const Shape wanted = d.raw_shape(static_cast<int>(d.below(4)), -1, 3);
    const auto at = resolved(dim, x.shape().size());
    Expected expected = refused();
    if (x.dim() > 0 && at)
      if (const auto inner = completed(sizes(wanted), sizes(x)[*at])) {
        Sizes shape = sizes(x);
        shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*at));
        shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*at), inner->begin(),
                     inner->end());
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

}  // namespace
