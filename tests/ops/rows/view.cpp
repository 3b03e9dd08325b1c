// Rows of the views, and of diagonals, sliding windows, triangles and one_hot.
#include <algorithm>

#include "../row.h"
#include "smoke_lines.h"

using namespace rows;
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
Shape other_shape(FuzzDraw& d, const Tensor& x) {
  if (d.chance(0.4)) return d.raw_shape(static_cast<int>(d.below(4)), -1, 6);
  Shape shape = x.shape();
  if (shape.rank() > 0 && d.flag()) std::reverse(shape.begin(), shape.end());
  if (shape.rank() > 0 && d.flag()) shape[d.below(shape.rank())] = -1;
  return shape;
}

/** Clamps a start or end of a range along `size` elements as slice does. */
Wide clamped(Wide i, Wide size) { return std::clamp<Wide>(i < 0 ? i + size : i, 0, size); }

/** Keeps the elements of x [rows,columns] that `keep` selects, zeros elsewhere; leading dimensions
 *  are batches. */
Oracle triangle_oracle(bool (*keep)(std::int64_t row, std::int64_t column)) {
  return [keep](const std::vector<Array>& x) {
    const std::int64_t columns = x[0].shape.back(), rows = x[0].shape[x[0].shape.rank() - 2];
    return std::vector<Array>{moved(x[0], x[0].shape, [&](std::int64_t i) {
      return keep(i / columns % rows, i % columns) ? i : -1;
    })};
  };
}

const Rows view_rows("index", [] {
  row("as_strided", CALL(x[0].as_strided(shape, strides, offset), const Shape& shape,
                         const Shape& strides, std::int64_t offset))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{{{2, 2}, {x[0][1], x[0][3], x[0][2], x[0][4]}}};
                 },
             .shapes = {{{6}}},
             .second_order = false,
             .exact_shapes_only = true},
            {2, 2}, {1, 2}, 1)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const int rank = static_cast<int>(d.below(4));
        const Shape shape = d.raw_shape(rank), strides = d.raw_shape(rank);
        const std::int64_t offset = d.number(-1, 2);
        return Trial{call({x}, shape, strides, offset),
                     none_negative(sizes(shape)) ? gives(sizes(shape)) : refused()};
      })
      .golden({"", "torch.as_strided(x0, (2, 3), (1, 2), 1)", "real(3, 4)"}, {2, 3}, {1, 2}, 1);
  row("expand", CALL(x[0].expand(shape), const Shape& shape))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{moved(x[0], {2, 3, 4}, [&](std::int64_t i) {
                     return x[0].shape.rank() == 1 ? i % 4 : i / 4 % 3;
                   })};
                 },
             .shapes = {{{4}}, {{3, 1}}}},
            {2, 3, 4})
      .fuzz([](FuzzDraw& d, const auto& call) {
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
        return Trial{call({x}, wanted), fits && none_negative(shape) ? gives(shape) : refused()};
      })
      .golden({"", "x0.expand(2, 3, 4)", "real(3, 1)"}, {2, 3, 4});
  row("permute", CALL(x[0].permute(order), const std::vector<std::int64_t>& order))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   const std::int64_t a = x[0].shape[0], b = x[0].shape[1], c = x[0].shape[2];
                   return std::vector<Array>{moved(x[0], {c, a, b}, [=](std::int64_t i) {
                     return (i / b % a * b + i % b) * c + i / (a * b);
                   })};
                 },
             .shapes = {{{2, 3, 4}}, {{1, 5, 2}}, {{3, 1, 1}}}},
            {2, 0, 1})
      .fuzz([](FuzzDraw& d, const auto& call) {
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
        return Trial{call({x}, order), expected};
      })
      .golden({"", "x0.permute(2, 0, 1)", "real(2, 3, 4)"}, {2, 0, 1});
  row("permute", CALL(x[0].transpose(a, b), std::int64_t a, std::int64_t b))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge();
        const std::int64_t a = d.dim(x.dim()), b = d.dim(x.dim());
        const auto first = resolved(a, x.shape().size()), second = resolved(b, x.shape().size());
        Sizes shape = sizes(x);
        if (first && second && !shape.empty()) std::swap(shape[*first], shape[*second]);
        return Trial{call({x}, a, b), first && second ? gives(shape) : refused()};
      });
  row("select", CALL(x[0].select(dim, index), std::int64_t dim, std::int64_t index))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   const std::int64_t n = x[0].numel() / x[0].shape[0];
                   Shape shape = x[0].shape;
                   shape.erase(0);
                   return std::vector<Array>{moved(
                       x[0], shape, [&](std::int64_t i) { return (x[0].shape[0] - 1) * n + i; })};
                 },
             .shapes = {{{3, 4}}, {{5}}, {{2, 2, 2}}}},
            0, -1)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge();
        const std::int64_t dim = d.dim(x.dim()), index = d.number(-3, 3);
        const auto at = resolved(dim, x.shape().size());
        Sizes shape = sizes(x);
        Expected expected = refused();
        if (x.dim() > 0 && at && index >= -shape[*at] && index < shape[*at]) {
          shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*at));
          expected = gives(shape);
        }
        return Trial{call({x}, dim, index), expected};
      })
      .golden({"", "x0.select(1, -1)", "real(2, 3, 4)"}, 1, -1);
  row("select", CALL(x[0].unbind(dim), std::int64_t dim)).fuzz([](FuzzDraw& d, const auto& call) {
    const Tensor x = d.tensor(d.short_shape(), d.dtype());
    const std::int64_t dim = d.dim(x.dim());
    const auto at = resolved(dim, x.shape().size());
    Expected expected = refused();
    if (x.dim() > 0 && at) {
      Sizes shape = sizes(x);
      shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(*at));
      expected = std::vector<Sizes>(static_cast<std::size_t>(sizes(x)[*at]), shape);
    }
    return Trial{call({x}, dim), expected};
  });
  row("slice", CALL(x[0].slice(dim, start, end, step), std::int64_t dim, std::int64_t start,
                    std::int64_t end, std::int64_t step))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   const std::int64_t n = x[0].shape[1], kept = (n - 2 + 1) / 2;
                   return std::vector<Array>{
                       moved(x[0], {x[0].shape[0], kept},
                             [=](std::int64_t i) { return i / kept * n + 1 + i % kept * 2; })};
                 },
             .shapes = {{{3, 6}}, {{2, 7}}, {{1, 3}}}},
            1, 1, -1, 2)
      .fuzz([](FuzzDraw& d, const auto& call) {
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
        return Trial{call({x}, dim, start, end, step), expected};
      })
      .golden({"", "x0[:, 1:6:2]", "real(2, 7)"}, 1, 1, 6, 2);
  row("slice", CALL(x[0].narrow(dim, start, length), std::int64_t dim, std::int64_t start,
                    std::int64_t length))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge();
        const std::int64_t dim = d.dim(x.dim()), start = d.number(-3, 3), length = d.number(-1, 3);
        const auto at = resolved(dim, x.shape().size());
        Expected expected = refused();
        if (x.dim() > 0 && at && length >= 0) {
          const Wide size = sizes(x)[*at], first = start < 0 ? start + size : start;
          if (first >= 0 && first + length <= size)
            expected = gives(resized(sizes(x), dim, length));
        }
        return Trial{call({x}, dim, start, length), expected};
      });
  row("slice", CALL(chunks ? x[0].chunk(size, dim) : x[0].split(size, dim), std::int64_t size,
                    std::int64_t dim, bool chunks))
      .fuzz([](FuzzDraw& d, const auto& call) {
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
        return Trial{call({x}, size, dim, chunks), expected};
      });
  row("view", CALL(x[0].view(shape), const Shape& shape))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{{{2, 6}, x[0].values}};
                 },
             .shapes = {{{3, 4}}, {{12}}, {{2, 2, 3}}},
             .exact_shapes_only = true},
            {2, 6})
      .golden({"", "x0.view(4, -1)", "real(2, 2, 3)"}, {4, -1});
  row("view",
      CALL(copies ? x[0].reshape(shape) : x[0].view(shape), const Shape& shape, bool copies))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge();
        const Shape wanted = other_shape(d, x);
        const bool copies = d.flag();
        return Trial{call({x}, wanted, copies), gives(completed(sizes(wanted), count(sizes(x))))};
      });
  row("view", CALL(x[0].flatten(start, end), std::int64_t start, std::int64_t end))
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge();
        const std::int64_t start = d.dim(x.dim()), end = d.dim(x.dim());
        const auto first = resolved(start, x.shape().size()),
                   last = resolved(end, x.shape().size());
        Expected expected = refused();
        if (first && last && *first <= *last) {
          const Sizes whole = sizes(x);
          Sizes shape(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(*first)), merged;
          for (std::size_t i = *first; i <= *last && i < whole.size(); ++i)
            merged.push_back(whole[i]);
          shape.push_back(count(merged));
          for (std::size_t i = *last + 1; i < whole.size(); ++i) shape.push_back(whole[i]);
          expected = gives(shape);
        }
        return Trial{call({x}, start, end), expected};
      });
  row("view", CALL(x[0].unflatten(dim, shape), std::int64_t dim, const Shape& shape))
      .fuzz([](FuzzDraw& d, const auto& call) {
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
        return Trial{call({x}, dim, wanted), expected};
      });
  row("view", CALL(x[0].unsqueeze(dim), std::int64_t dim)).fuzz([](FuzzDraw& d, const auto& call) {
    const Tensor x = d.maybe_huge();
    const std::int64_t dim = d.number(-x.dim() - 1, x.dim());
    const auto at = resolved(dim, x.shape().size() + 1);
    Sizes shape = sizes(x);
    if (at) shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(*at), 1);
    return Trial{call({x}, dim), at ? gives(shape) : refused()};
  });
});

const Rows diagonal_rows("space", [] {
  row("diagonal",
      CALL(x[0].diagonal(offset, a, b), std::int64_t offset, std::int64_t a, std::int64_t b))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   const std::int64_t n = std::min(x[0].shape[0], x[0].shape[1]),
                                      columns = x[0].shape[1];
                   return std::vector<Array>{
                       moved(x[0], {n}, [=](std::int64_t i) { return i * columns + i; })};
                 },
             .shapes = {{{3, 4}}, {{4, 3}}, {{1, 1}}, {{0, 3}}}},
            0, 0, 1)
      .test({.variant = "below, of outer dimensions",
             .oracle =
                 [](const std::vector<Array>& x) {
                   // Index i + 1 of dimension 2 pairs with index i of dimension 0.
                   const std::int64_t a = x[0].shape[0], b = x[0].shape[1], c = x[0].shape[2];
                   const std::int64_t n = std::max<std::int64_t>(0, std::min(c - 1, a));
                   return std::vector<Array>{moved(x[0], {b, n}, [=](std::int64_t i) {
                     return (i % n * b + i / n) * c + i % n + 1;
                   })};
                 },
             .shapes = {{{2, 3, 4}}, {{4, 2, 3}}, {{2, 2, 1}}}},
            -1, 2, 0)
      .fuzz([](FuzzDraw& d, const auto& call) {
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
        return Trial{call({x}, offset, a, b), expected};
      })
      .golden({"", "x0.diagonal(1)", "real(3, 4)"}, 1, 0, 1)
      .golden({"outer dimensions", "x0.diagonal(-1, 2, 0)", "real(2, 3, 4)"}, -1, 2, 0);
  row("windows",
      CALL(x[0].unfold(dim, size, step), std::int64_t dim, std::int64_t size, std::int64_t step))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   const std::int64_t count = (x[0].shape[0] - 3) / 2 + 1,
                                      inner = x[0].numel() / x[0].shape[0];
                   Shape shape = x[0].shape;
                   shape[0] = count;
                   shape.push_back(3);
                   return std::vector<Array>{moved(x[0], shape, [=](std::int64_t i) {
                     return (i / 3 / inner * 2 + i % 3) * inner + i / 3 % inner;
                   })};
                 },
             .shapes = {{{7}}, {{8}}, {{3, 2}}, {{6, 2, 2}}}},
            0, 3, 2)
      .test({.variant = "of the last dimension, apart",
             .oracle =
                 [](const std::vector<Array>& x) {
                   const std::int64_t n = x[0].shape.back(), count = (n - 2) / 3 + 1;
                   Shape shape = x[0].shape;
                   shape[shape.rank() - 1] = count;
                   shape.push_back(2);
                   return std::vector<Array>{moved(x[0], shape, [=](std::int64_t i) {
                     return i / (2 * count) * n + i / 2 % count * 3 + i % 2;
                   })};
                 },
             .shapes = {{{5}}, {{2, 7}}, {{0, 4}}}},
            -1, 2, 3)
      .fuzz([](FuzzDraw& d, const auto& call) {
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
        return Trial{call({x}, dim, size, step), expected};
      })
      .golden({"", "x0.unfold(1, 3, 2)", "real(2, 8, 2)"}, 1, 3, 2);
  row("tril", CALL(tril(x[0], diagonal), std::int64_t diagonal))
      .test({.oracle = triangle_oracle(
                 [](std::int64_t row, std::int64_t column) { return column <= row; }),
             .shapes = {{{3, 4}}, {{4, 3}}, {{2, 3, 3}}, {{0, 2}}, {{2, 0}}}},
            0)
      .test({.variant = "far below",
             .oracle = triangle_oracle(
                 [](std::int64_t row, std::int64_t column) { return column <= row - 2; }),
             .shapes = {{{4, 4}}, {{2, 3}}}},
            -2)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge();
        const std::int64_t diagonal = d.number(-3, 3);
        return Trial{call({x}, diagonal), x.dim() >= 2 ? gives(sizes(x)) : refused()};
      })
      .golden({"", "torch.tril(x0, 1)", "real(2, 4, 5)"}, 1)
      .smoke(smoke_rows("tril", {f32}, smoke::Expected::same), 0);
  row("triu", CALL(triu(x[0], diagonal), std::int64_t diagonal))
      .test({.oracle = triangle_oracle(
                 [](std::int64_t row, std::int64_t column) { return column >= row; }),
             .shapes = {{{3, 4}}, {{4, 3}}, {{2, 3, 3}}, {{0, 2}}}},
            0)
      .test({.variant = "above and below",
             .call = CALL(triu(x[0], 1) + triu(x[0], -5)),
             .oracle =
                 [](const std::vector<Array>& x) {
                   Array y = x[0];
                   const std::int64_t columns = y.shape[1];
                   for (std::int64_t i = 0; i < y.numel(); ++i)
                     if (i % columns >= i / columns + 1) y.values[static_cast<std::size_t>(i)] *= 2;
                   return std::vector<Array>{y};
                 },
             .shapes = {{{3, 4}}},
             .single_op = false})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge();
        const std::int64_t diagonal = d.number(-3, 3);
        return Trial{call({x}, diagonal), x.dim() >= 2 ? gives(sizes(x)) : refused()};
      })
      .golden({"", "torch.triu(x0, -1)", "real(2, 4, 5)"}, -1);
  auto of_vectors =
      row("diag", CALL(diag(x[0], diagonal), std::int64_t diagonal))
          .test({.variant = "of a matrix",
                 .oracle =
                     [](const std::vector<Array>& x) {
                       const std::int64_t columns = x[0].shape[1],
                                          n = std::min(x[0].shape[0], columns - 1);
                       return std::vector<Array>{
                           moved(x[0], {n}, [=](std::int64_t i) { return i * columns + i + 1; })};
                     },
                 .shapes = {{{3, 4}}, {{4, 2}}}},
                1)
          .fuzz([](FuzzDraw& d, const auto& call) {
            const Tensor x = d.tensor(d.shape(1, 3), d.dtype());
            const std::int64_t diagonal = d.number(-3, 3);
            const Wide far = diagonal < 0 ? -Wide{diagonal} : Wide{diagonal};
            Expected expected = refused();
            if (x.dim() == 1) expected = gives({x.shape()[0] + far, x.shape()[0] + far});
            if (x.dim() == 2)
              expected = gives(
                  {std::max<Wide>(0, std::min(x.shape()[0] - std::max<Wide>(-Wide{diagonal}, 0),
                                              x.shape()[1] - std::max<Wide>(diagonal, 0)))});
            return Trial{call({x}, diagonal), expected};
          })
          .golden({"", "torch.diag(x0, -1)", "real(3)"}, -1)
          .golden({"of a matrix", "torch.diag(x0, 1)", "real(3, 4)"}, 1);
  for (const std::int64_t offset : {0, 2, -1})
    of_vectors.test({.variant = str("a vector, ", offset),
                     .oracle =
                         [offset](const std::vector<Array>& x) {
                           const std::int64_t n = x[0].numel() + std::abs(offset);
                           return std::vector<Array>{moved(x[0], {n, n}, [=](std::int64_t i) {
                             const std::int64_t row = i / n, column = i % n;
                             return column - row == offset ? std::min(row, column) : -1;
                           })};
                         },
                     .shapes = {{{3}}, {{1}}, {{0}}}},
                    offset);
  row("trace", CALL(trace(x[0])))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   double sum = 0;
                   for (std::int64_t i = 0; i < std::min(x[0].shape[0], x[0].shape[1]); ++i)
                     sum += x[0][i * x[0].shape[1] + i];
                   return std::vector<Array>{{Shape{}, {sum}}};
                 },
             .shapes = {{{3, 4}}, {{2, 2}}, {{0, 2}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        return Trial{call({x}), x.dim() == 2 ? gives(Sizes{}) : refused()};
      })
      .golden({"", "torch.trace", "real(3, 4)"});
  row("one_hot", CALL(one_hot(x[0], classes), std::int64_t classes))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   Shape shape = x[0].shape;
                   shape.push_back(5);
                   Array y{shape, {}};
                   for (const double v : x[0].values)
                     for (int c = 0; c < 5; ++c) y.values.push_back(v == c);
                   return std::vector<Array>{y};
                 },
             .operands = {{.low = 0, .high = 4, .integers = true}},
             .shapes = {{Shape{}}, {{3}}, {{2, 2}}, {{0}}},
             .gradients = false},
            5)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const std::int64_t classes = d.number(-1, 5);
        const Tensor x = d.index(d.shape(), 5);
        Sizes shape = sizes(x);
        shape.push_back(classes == -1 ? kAny : Wide{classes});
        return Trial{call({x}, classes), classes >= 1 || classes == -1 ? gives(shape) : refused()};
      })
      .golden({"", "F.one_hot(x0, 5)", "whole(2, 3, high=4)"}, 5);
});

}  // namespace
