// Cases of the ops that overwrite rows and masked elements, of unique, and of cumulative extremes
// and medians.
#include <algorithm>

#include "samples.h"

using namespace cases;
using namespace mezzo;

namespace {

Tensor ints(const std::vector<double>& values) {
  return tensor(values, {.dtype = i64, .device = test_device()});
}

/** Returns x [outer,n,inner] with row r of each outer block replaced by row source(r) of `src` (k
 *  rows), or unchanged at -1. */
Array overwritten(const Array& x, const Array& src, int dim,
                  const std::vector<std::int64_t>& index) {
  std::int64_t inner = 1;
  for (int d = dim + 1; d < x.shape.rank(); ++d) inner *= x.shape[d];
  const std::int64_t n = x.shape[dim], k = static_cast<std::int64_t>(index.size());
  Array y = x;
  for (std::int64_t outer = 0; outer < (x.numel() == 0 ? 0 : x.numel() / (n * inner)); ++outer)
    for (std::int64_t r = 0; r < k; ++r)
      for (std::int64_t i = 0; i < inner; ++i)
        y.values[static_cast<std::size_t>((outer * n + index[static_cast<std::size_t>(r)]) * inner +
                                          i)] =
            src.numel() == 1 ? src[0] : src[(outer * k + r) * inner + i];
  return y;
}

/** Cumulative extreme along `dim`: values, and the last index at which each occurred. */
Oracle running(int dim, bool greatest) {
  return [=](const std::vector<Array>& x) {
    Array values = x[0], indices = x[0];
    std::int64_t inner = 1;
    for (int d = dim + 1; d < x[0].shape.rank(); ++d) inner *= x[0].shape[d];
    const std::int64_t n = x[0].shape.rank() == 0 ? 1 : x[0].shape[dim];
    for (std::int64_t i = 0; i < x[0].numel(); ++i) {
      const std::int64_t k = i / inner % n;
      std::int64_t best = 0;
      for (std::int64_t j = 0; j <= k; ++j) {
        const double a = x[0][i - (k - j) * inner], b = x[0][i - (k - best) * inner];
        if (greatest ? a >= b : a <= b) best = j;
      }
      values.values[static_cast<std::size_t>(i)] = x[0][i - (k - best) * inner];
      indices.values[static_cast<std::size_t>(i)] = static_cast<double>(best);
    }
    return std::vector<Array>{values, indices};
  };
}

std::vector<Tensor> both(const ValuesAndIndices& r) { return {r.values, r.indices}; }

Oracle middle_of_columns(bool keepdim) {
  return [keepdim](const std::vector<Array>& x) {
    const std::int64_t n = x[0].shape[0], columns = x[0].numel() / n;
    Shape shape = x[0].shape;
    if (keepdim)
      shape[0] = 1;
    else
      shape.erase(0);
    Array values{shape, {}}, indices{shape, {}};
    for (std::int64_t c = 0; c < columns; ++c) {
      std::vector<std::pair<double, std::int64_t>> column;
      for (std::int64_t i = 0; i < n; ++i) column.emplace_back(x[0][i * columns + c], i);
      std::sort(column.begin(), column.end());
      const auto& chosen = column[static_cast<std::size_t>((n - 1) / 2)];
      values.values.push_back(chosen.first);
      indices.values.push_back(static_cast<double>(chosen.second));
    }
    return std::vector<Array>{values, indices};
  };
}

const Registrar additions([] {
  add_case({.op = "index_copy",
            .call = CALL(index_copy(x[0], 0, ints({2, 0}), x[1])),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{overwritten(x[0], x[1], 0, {2, 0})};
                },
            .operands = {{}, {}},
            .shapes = {{{3}, {2}}, {{3, 4}, {2, 4}}, {{4, 0}, {2, 0}}}});
  add_case({.op = "index_copy",
            .variant = "in place, along the last dimension",
            .call = CALL(index_copy_(x[0].clone(), -1, ints({1, 3}), x[1])),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{overwritten(x[0], x[1], x[0].shape.rank() - 1, {1, 3})};
                },
            .operands = {{}, {}},
            .shapes = {{{4}, {2}}, {{3, 4}, {3, 2}}, {{2, 2, 5}, {2, 2, 2}}}});
  add_case({.op = "index_fill",
            .call = CALL(index_fill(x[0], 1, ints({0, 2}), x[1])),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{overwritten(x[0], x[1], 1, {0, 2})};
                },
            .operands = {{}, {}},
            .shapes = {{{2, 3}, Shape{}}, {{2, 4, 2}, Shape{}}, {{0, 3}, Shape{}}}});
  add_case({.op = "index_fill",
            .variant = "in place, a number, twice at one place",
            .call = CALL(index_fill_(x[0].clone(), 0, ints({1, 1}), 3.5)),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{overwritten(x[0], {Shape{}, {3.5}}, 0, {1, 1})};
                },
            .shapes = {{{2}}, {{3, 2}}}});
  add_case({.op = "index_copy",
            .variant = "several rows to one place",
            .call = CALL(index_copy(x[0], 1, ints({2, 0, 2, 2}), x[1])),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{overwritten(x[0], x[1], 1, {2, 0, 2, 2})};
                },
            .operands = {{}, {}},
            .shapes = {{{2, 3}, {2, 4}}, {{2, 3, 2}, {2, 4, 2}}}});
  add_case({.op = "index_fill",
            .variant = "a tensor, twice at one place",
            .call = CALL(index_fill(x[0], 0, ints({1, 0, 1}), x[1])),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{overwritten(x[0], x[1], 0, {1, 0, 1})};
                },
            .operands = {{}, {}},
            .shapes = {{{3}, Shape{}}, {{2, 3}, Shape{}}}});
  add_case(
      {.op = "masked_scatter",
       .call = CALL(masked_scatter(x[0], x[1], x[2])),
       .oracle =
           [](const std::vector<Array>& x) {
             const Shape& shape = x[0].shape.rank() > x[1].shape.rank() ? x[0].shape : x[1].shape;
             Array y{shape, {}};
             std::int64_t n = 1, used = 0;
             for (const std::int64_t s : shape) n *= s;
             for (std::int64_t i = 0; i < n; ++i)
               y.values.push_back(broadcast_at(x[1], shape, i) != 0 ? x[2][used++]
                                                                    : broadcast_at(x[0], shape, i));
             return std::vector<Array>{y};
           },
       .operands = {{}, {.boolean = true}, {}},
       .shapes = {{{5}, {5}, {7}}, {{3, 4}, {4}, {4, 3}}, {{4}, {3, 4}, {12}}, {{0}, {0}, {0}}}});
  add_case(
      {.op = "unique",
       .call =
           [](const std::vector<Tensor>& x) {
             const UniqueResult r = unique(x[0], {.return_inverse = true, .return_counts = true});
             return std::vector<Tensor>{r.values, r.inverse, r.counts};
           },
       .oracle =
           [](const std::vector<Array>& x) {
             std::vector<double> distinct = x[0].values;
             std::sort(distinct.begin(), distinct.end());
             distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
             const auto n = static_cast<std::int64_t>(distinct.size());
             Array inverse{x[0].shape, {}}, counts{{n}, std::vector<double>(distinct.size(), 0.0)};
             for (const double v : x[0].values) {
               const auto at = std::find(distinct.begin(), distinct.end(), v) - distinct.begin();
               inverse.values.push_back(static_cast<double>(at));
               counts.values[static_cast<std::size_t>(at)] += 1;
             }
             return std::vector<Array>{{{n}, distinct}, inverse, counts};
           },
       .operands = {{.low = 0, .high = 4, .integers = true}},
       .shapes = {{{12}}, {{3, 4}}, {{1}}, {{0}}, {Shape{}}},
       .gradients = false});
  for (const bool greatest : {true, false}) {
    const auto extreme = greatest ? cummax : cummin;
    const char* op = greatest ? "cummax" : "cummin";
    add_case({.op = op,
              .call = [=](const std::vector<Tensor>& x) { return both(extreme(x[0], 0)); },
              .oracle = running(0, greatest),
              .operands = {{.positive_definite_gap = true}},
              .shapes = {{Shape{}}, {{9}}, {{5, 3}}, {{4, 2, 70}}, {{0, 2}}, {{2, 0}}}});
    add_case({.op = op,
              .variant = "of the middle dimension, the last of equals",
              .call = [=](const std::vector<Tensor>& x) { return both(extreme(x[0], -2)); },
              .oracle = running(1, greatest),
              .operands = {{.low = 0, .high = 2, .integers = true}},
              .shapes = {{{2, 12, 3}}},
              .gradients = false});
  }
  const Operand apart{.positive_definite_gap = true};
  add_case({.op = "median",
            .call = [](const std::vector<Tensor>& x) { return both(median(x[0], 0)); },
            .oracle = middle_of_columns(false),
            .operands = {apart},
            .shapes = {{{7}}, {{6}}, {{5, 3}}, {{4, 2, 2}}, {{1}}}});
  add_case(
      {.op = "median",
       .variant = "keepdim",
       .call =
           [](const std::vector<Tensor>& x) { return both(median(x[0], 0, {.keepdim = true})); },
       .oracle = middle_of_columns(true),
       .operands = {apart},
       .shapes = {{{7}}, {{4, 3}}}});
  add_case({.op = "median",
            .variant = "of all",
            .call = CALL(median(x[0])),
            .oracle =
                [](const std::vector<Array>& x) {
                  std::vector<double> values = x[0].values;
                  std::sort(values.begin(), values.end());
                  return std::vector<Array>{{Shape{}, {values[(values.size() - 1) / 2]}}};
                },
            .operands = {apart},
            .shapes = {{Shape{}}, {{8}}, {{3, 3}}}});
});

}  // namespace
