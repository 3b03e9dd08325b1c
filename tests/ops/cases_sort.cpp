// Cases of the ops that order elements along a dimension.
#include <algorithm>

#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

/** Values and indices of the sorted elements along `dim`, `count` of them from `first` on (-1:
 *  all). */
Oracle ordered(int dim, bool descending, std::int64_t first, std::int64_t count,
               bool keepdim = true) {
  return [=](const std::vector<Array>& x) {
    Shape shape = x[0].shape.rank() == 0 ? Shape{1} : x[0].shape;
    const std::int64_t length = shape[dim], kept = count < 0 ? length : count;
    std::int64_t inner = 1;
    for (int d = dim + 1; d < shape.rank(); ++d) inner *= shape[d];
    shape[dim] = kept;
    Array values{shape, {}}, indices{shape, {}};
    std::int64_t n = 1;
    for (const std::int64_t size : shape) n *= size;
    values.values.resize(static_cast<std::size_t>(n));
    indices.values.resize(static_cast<std::size_t>(n));
    for (std::int64_t line = 0; kept > 0 && line < n / kept; ++line) {
      const auto at = [&](std::int64_t i, std::int64_t size) {
        return (line / inner * size + i) * inner + line % inner;
      };
      std::vector<std::int64_t> order;
      for (std::int64_t i = 0; i < length; ++i) order.push_back(i);
      std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        const double u = x[0][at(a, length)], v = x[0][at(b, length)];
        return descending ? u > v : u < v;
      });
      for (std::int64_t i = 0; i < kept; ++i) {
        const std::int64_t from = order[static_cast<std::size_t>(first + i)];
        values.values[static_cast<std::size_t>(at(i, kept))] = x[0][at(from, length)];
        indices.values[static_cast<std::size_t>(at(i, kept))] = static_cast<double>(from);
      }
    }
    if (!keepdim) shape.erase(dim);
    if (x[0].shape.rank() == 0) shape = Shape{};
    values.shape = indices.shape = shape;
    return std::vector<Array>{values, indices};
  };
}

/** The share q of the sorted elements along `dim`, interpolated. */
Oracle quantile_of(int dim, double q) {
  return [=](const std::vector<Array>& x) {
    const std::int64_t length = x[0].shape[dim];
    const double place = q * static_cast<double>(length - 1);
    const auto first = static_cast<std::int64_t>(place);
    const std::int64_t second = std::min(first + 1, length - 1);
    const Array below = ordered(dim, false, first, 1, false)(x)[0];
    const Array above = ordered(dim, false, second, 1, false)(x)[0];
    Array y = below;
    for (std::size_t i = 0; i < y.values.size(); ++i)
      y.values[i] += (place - static_cast<double>(first)) * (above.values[i] - below.values[i]);
    return std::vector<Array>{y};
  };
}

std::vector<Tensor> both(const ValuesAndIndices& result) { return {result.values, result.indices}; }

// Far enough apart that no rounding or difference quotient changes the order.
const Operand kApart{.positive_definite_gap = true};

const Registrar additions([] {
  add_case({.op = "sort",
            .call = [](const std::vector<Tensor>& x) { return both(sort(x[0])); },
            .oracle =
                [](const std::vector<Array>& x) {
                  return ordered(std::max(0, x[0].shape.rank() - 1), false, 0, -1)(x);
                },
            .operands = {kApart},
            .shapes = {{Shape{}}, {{7}}, {{3, 5}}, {{0}}, {{2, 0}}, {{40}}}});
  add_case({.op = "sort",
            .variant = "descending, along the first dimension",
            .call =
                [](const std::vector<Tensor>& x) {
                  return both(sort(x[0], {.dim = 0, .descending = true}));
                },
            .oracle = ordered(0, true, 0, -1),
            .operands = {kApart},
            .shapes = {{{7}}, {{5, 3}}, {{4, 2, 3}}}});
  add_case({.op = "sort",
            .variant = "with ties",
            .call =
                [](const std::vector<Tensor>& x) {
                  return both(sort(x[0], {.dim = 1, .descending = true}));
                },
            .oracle = ordered(1, true, 0, -1),
            .operands = {{.low = 0, .high = 3, .integers = true}},
            .shapes = {{{3, 30}}, {{2, 9, 2}}},
            .gradients = false});
  add_case({.op = "argsort",
            .call = CALL(argsort(x[0], {.dim = 0})),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{ordered(0, false, 0, -1)(x)[1]};
                },
            .operands = {kApart},
            .shapes = {{{7}}, {{5, 3}}},
            .gradients = false});
  add_case({.op = "quantile",
            .call = CALL(quantile(x[0], 0.3, {.dim = 0})),
            .oracle = quantile_of(0, 0.3),
            .operands = {kApart},
            .shapes = {{{7}}, {{4, 3}}, {{1, 2}}, {{5, 2, 2}}}});
  add_case({.op = "quantile",
            .variant = "of all, several shares",
            .call = CALL(quantile(x[0], x[1])),
            .oracle =
                [](const std::vector<Array>& x) {
                  Array y{x[1].shape, {}};
                  const Array all{{x[0].numel()}, x[0].values};
                  for (const double q : x[1].values)
                    y.values.push_back(quantile_of(0, q)({all})[0][0]);
                  return std::vector<Array>{y};
                },
            .operands = {kApart, {.low = 0.05, .high = 0.95, .kinks = {1 / 3.0, 2 / 3.0}}},
            .shapes = {{{4}, {3}}, {{2, 2}, Shape{}}, {{4}, {0}}},
            .factor = 4});
  add_case({.op = "topk",
            .call = [](const std::vector<Tensor>& x) { return both(topk(x[0], 2)); },
            .oracle =
                [](const std::vector<Array>& x) {
                  return ordered(x[0].shape.rank() - 1, true, 0, 2)(x);
                },
            .operands = {kApart},
            .shapes = {{{7}}, {{3, 5}}, {{2, 3, 2}}, {{0, 4}}}});
  add_case({.op = "topk",
            .variant = "smallest, along the first dimension",
            .call =
                [](const std::vector<Tensor>& x) {
                  return both(topk(x[0], 3, {.dim = 0, .largest = false}));
                },
            .oracle = ordered(0, false, 0, 3),
            .operands = {kApart},
            .shapes = {{{7}}, {{3, 5}}, {{4, 2, 2}}}});
  add_case(
      {.op = "kthvalue",
       .call = [](const std::vector<Tensor>& x) { return both(kthvalue(x[0], 2, {.dim = 0})); },
       .oracle = ordered(0, false, 1, 1, false),
       .operands = {kApart},
       .shapes = {{{7}}, {{3, 5}}, {{4, 2, 2}}}});
  add_case(
      {.op = "kthvalue",
       .variant = "keepdim",
       .call =
           [](const std::vector<Tensor>& x) { return both(kthvalue(x[0], 1, {.keepdim = true})); },
       .oracle =
           [](const std::vector<Array>& x) {
             return ordered(std::max(0, x[0].shape.rank() - 1), false, 0, 1)(x);
           },
       .operands = {kApart},
       .shapes = {{Shape{}}, {{7}}, {{3, 5}}}});
});

}  // namespace
