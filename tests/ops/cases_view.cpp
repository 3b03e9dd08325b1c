// Cases of diagonals, sliding windows, triangles and one_hot.
#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

/** Keeps the elements of x [rows,columns] that `keep` selects, zeros elsewhere; leading dimensions
 *  are batches. */
Oracle triangle(bool (*keep)(std::int64_t row, std::int64_t column)) {
  return [keep](const std::vector<Array>& x) {
    const std::int64_t columns = x[0].shape.back(), rows = x[0].shape[x[0].shape.rank() - 2];
    return std::vector<Array>{moved(x[0], x[0].shape, [&](std::int64_t i) {
      return keep(i / columns % rows, i % columns) ? i : -1;
    })};
  };
}

const Registrar additions([] {
  add_case({.op = "diagonal",
            .call = CALL(x[0].diagonal()),
            .oracle =
                [](const std::vector<Array>& x) {
                  const std::int64_t n = std::min(x[0].shape[0], x[0].shape[1]),
                                     columns = x[0].shape[1];
                  return std::vector<Array>{
                      moved(x[0], {n}, [=](std::int64_t i) { return i * columns + i; })};
                },
            .shapes = {{{3, 4}}, {{4, 3}}, {{1, 1}}, {{0, 3}}}});
  add_case({.op = "diagonal",
            .variant = "below, of outer dimensions",
            .call = CALL(x[0].diagonal(-1, 2, 0)),
            .oracle =
                [](const std::vector<Array>& x) {
                  // Index i + 1 of dimension 2 pairs with index i of dimension 0.
                  const std::int64_t a = x[0].shape[0], b = x[0].shape[1], c = x[0].shape[2];
                  const std::int64_t n = std::max<std::int64_t>(0, std::min(c - 1, a));
                  return std::vector<Array>{moved(x[0], {b, n}, [=](std::int64_t i) {
                    return (i % n * b + i / n) * c + i % n + 1;
                  })};
                },
            .shapes = {{{2, 3, 4}}, {{4, 2, 3}}, {{2, 2, 1}}}});
  add_case({.op = "windows",
            .call = CALL(x[0].unfold(0, 3, 2)),
            .oracle =
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
            .shapes = {{{7}}, {{8}}, {{3, 2}}, {{6, 2, 2}}}});
  add_case({.op = "windows",
            .variant = "of the last dimension, apart",
            .call = CALL(x[0].unfold(-1, 2, 3)),
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
            .shapes = {{{5}}, {{2, 7}}, {{0, 4}}}});
  add_case({.op = "tril",
            .call = CALL(tril(x[0])),
            .oracle = triangle([](std::int64_t row, std::int64_t column) { return column <= row; }),
            .shapes = {{{3, 4}}, {{4, 3}}, {{2, 3, 3}}, {{0, 2}}, {{2, 0}}}});
  add_case(
      {.op = "tril",
       .variant = "far below",
       .call = CALL(tril(x[0], -2)),
       .oracle = triangle([](std::int64_t row, std::int64_t column) { return column <= row - 2; }),
       .shapes = {{{4, 4}}, {{2, 3}}}});
  add_case({.op = "triu",
            .call = CALL(triu(x[0])),
            .oracle = triangle([](std::int64_t row, std::int64_t column) { return column >= row; }),
            .shapes = {{{3, 4}}, {{4, 3}}, {{2, 3, 3}}, {{0, 2}}}});
  add_case({.op = "triu",
            .variant = "above and below",
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
            .single_op = false});
  for (const std::int64_t offset : {0, 2, -1})
    add_case({.op = "diag",
              .variant = str("a vector, ", offset),
              .call =
                  [offset](const std::vector<Tensor>& x) {
                    return std::vector<Tensor>{diag(x[0], offset)};
                  },
              .oracle =
                  [offset](const std::vector<Array>& x) {
                    const std::int64_t n = x[0].numel() + std::abs(offset);
                    return std::vector<Array>{moved(x[0], {n, n}, [=](std::int64_t i) {
                      const std::int64_t row = i / n, column = i % n;
                      return column - row == offset ? std::min(row, column) : -1;
                    })};
                  },
              .shapes = {{{3}}, {{1}}, {{0}}}});
  add_case({.op = "diag",
            .variant = "of a matrix",
            .call = CALL(diag(x[0], 1)),
            .oracle =
                [](const std::vector<Array>& x) {
                  const std::int64_t columns = x[0].shape[1],
                                     n = std::min(x[0].shape[0], columns - 1);
                  return std::vector<Array>{
                      moved(x[0], {n}, [=](std::int64_t i) { return i * columns + i + 1; })};
                },
            .shapes = {{{3, 4}}, {{4, 2}}}});
  add_case({.op = "trace",
            .call = CALL(trace(x[0])),
            .oracle =
                [](const std::vector<Array>& x) {
                  double sum = 0;
                  for (std::int64_t i = 0; i < std::min(x[0].shape[0], x[0].shape[1]); ++i)
                    sum += x[0][i * x[0].shape[1] + i];
                  return std::vector<Array>{{Shape{}, {sum}}};
                },
            .shapes = {{{3, 4}}, {{2, 2}}, {{0, 2}}}});
  add_case({.op = "one_hot",
            .call = CALL(one_hot(x[0], 5)),
            .oracle =
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
            .gradients = false});
});

}  // namespace
