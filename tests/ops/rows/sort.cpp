// Rows of the ops that order elements along a dimension, and of the running extremes.
#include <algorithm>

#include "../row.h"
#include "smoke_lines.h"

using namespace rows;
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

/** Cumulative extreme along `dim`: values, and the last index at which each occurred. */
Oracle running_oracle(int dim, bool greatest) {
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

// Far enough apart that no rounding or difference quotient changes the order.
const Operand kDistinct{.positive_definite_gap = true};

/** Returns x's shape with dim reduced to `size` elements, or removed. */
Expected one_left(const Tensor& x, std::int64_t dim, bool keepdim) {
  return gives_both(reduced(sizes(x), {dim}, keepdim));
}

QuantileOptions draw_quantile(FuzzDraw& d, const Tensor& x) {
  QuantileOptions options{.keepdim = d.flag()};
  if (d.flag()) options.dim = d.dim(x.dim());
  options.interpolation = static_cast<QuantileInterpolation>(d.below(5));
  return options;
}

/** Returns the shape of one share. */
Expected shares_of(const Tensor& x, const QuantileOptions& o) {
  if (o.dim) return gives(reduced(sizes(x), {*o.dim}, o.keepdim));
  return gives(Sizes(o.keepdim ? x.shape().size() : 0, 1));
}

/** Adds what cummax and cummin have in common. */
template <class Row> Row& test_running(Row&& row, bool greatest) {
  return row
      .test({.oracle = running_oracle(0, greatest),
             .operands = {{.positive_definite_gap = true}},
             .shapes = {{Shape{}}, {{9}}, {{5, 3}}, {{4, 2, 70}}, {{0, 2}}, {{2, 0}}}},
            0)
      .test({.variant = "of the middle dimension, the last of equals",
             .oracle = running_oracle(1, greatest),
             .operands = {{.low = 0, .high = 2, .integers = true}},
             .shapes = {{{2, 12, 3}}},
             .gradients = false},
            -2)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const std::int64_t dim = d.dim(x.dim());
        return Trial{call({x}, dim),
                     resolved(dim, x.shape().size()) ? gives_both(sizes(x)) : refused()};
      });
}

const Rows sort_rows("reduce", [] {
  row("sort", CALL(sort(x[0], o), const SortOptions& o))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   return ordered(std::max(0, x[0].shape.rank() - 1), false, 0, -1)(x);
                 },
             .operands = {kDistinct},
             .shapes = {{Shape{}}, {{7}}, {{3, 5}}, {{0}}, {{2, 0}}, {{40}}}})
      .test({.variant = "descending, along the first dimension",
             .oracle = ordered(0, true, 0, -1),
             .operands = {kDistinct},
             .shapes = {{{7}}, {{5, 3}}, {{4, 2, 3}}}},
            {.dim = 0, .descending = true})
      .test({.variant = "with ties",
             .oracle = ordered(1, true, 0, -1),
             .operands = {{.low = 0, .high = 3, .integers = true}},
             .shapes = {{{3, 30}}, {{2, 9, 2}}},
             .gradients = false},
            {.dim = 1, .descending = true})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const SortOptions options{.dim = d.dim(x.dim()), .descending = d.flag()};
        return Trial{call({x}, options),
                     resolved(options.dim, x.shape().size()) ? gives_both(sizes(x)) : refused()};
      })
      .golden({"", "torch.sort", "distinct(3, 5)"})
      .golden({"descending", "torch.sort(x0, 0, descending=True)", "distinct(4, 3)"},
              {.dim = 0, .descending = true})
      .golden({"stable", "torch.sort(x0, stable=True)", "whole(20, high=3)"});
  row("argsort", CALL(argsort(x[0], o), const SortOptions& o))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{ordered(0, false, 0, -1)(x)[1]};
                 },
             .operands = {kDistinct},
             .shapes = {{{7}}, {{5, 3}}},
             .gradients = false},
            {.dim = 0})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const SortOptions options{.dim = d.dim(x.dim()), .descending = d.flag()};
        return Trial{call({x}, options),
                     resolved(options.dim, x.shape().size()) ? gives(sizes(x)) : refused()};
      })
      .golden({"", "torch.argsort", "distinct(3, 5)"});
  row("sort", CALL(sort(x[0]).indices)).smoke(smoke_rows("sort", {f32, f16}, kSame));
  row("sort", CALL(sort(x[0].flatten()).indices)).smoke(smoke_rows("sort, long", {f32}, kSame));
  row("topk", CALL(topk(x[0], k, o), std::int64_t k, const TopkOptions& o))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   return ordered(x[0].shape.rank() - 1, true, 0, 2)(x);
                 },
             .operands = {kDistinct},
             .shapes = {{{7}}, {{3, 5}}, {{2, 3, 2}}, {{0, 4}}}},
            2, {})
      .test({.variant = "smallest, along the first dimension",
             .oracle = ordered(0, false, 0, 3),
             .operands = {kDistinct},
             .shapes = {{{7}}, {{3, 5}}, {{4, 2, 2}}}},
            3, {.dim = 0, .largest = false})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const TopkOptions options{.dim = d.dim(x.dim()), .largest = d.flag(), .sorted = d.flag()};
        const std::int64_t k = d.number(0, 4);
        Expected expected = refused();
        if (resolved(options.dim, x.shape().size()) && k >= 0 &&
            k <= length_along(x, options.dim)) {
          expected = gives_both(resized(sizes(x), options.dim, k));
          if (x.dim() == 0 && k == 0) expected = gives_both(Sizes{0});
        }
        return Trial{call({x}, k, options), expected};
      })
      .golden({"", "torch.topk(x0, 2)", "distinct(3, 5)"}, 2, {})
      .golden({"smallest", "torch.topk(x0, 3, 0, largest=False)", "distinct(5, 2)"}, 3,
              {.dim = 0, .largest = false});
  row("topk", CALL(topk(x[0], 5).indices)).smoke(smoke_rows("topk", {f32, f16}, kSame));
  row("kthvalue", CALL(kthvalue(x[0], k, o), std::int64_t k, const KthvalueOptions& o))
      .test({.oracle = ordered(0, false, 1, 1, false),
             .operands = {kDistinct},
             .shapes = {{{7}}, {{3, 5}}, {{4, 2, 2}}}},
            2, {.dim = 0})
      .test({.variant = "keepdim",
             .oracle =
                 [](const std::vector<Array>& x) {
                   return ordered(std::max(0, x[0].shape.rank() - 1), false, 0, 1)(x);
                 },
             .operands = {kDistinct},
             .shapes = {{Shape{}}, {{7}}, {{3, 5}}}},
            1, {.keepdim = true})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const KthvalueOptions options{.dim = d.dim(x.dim()), .keepdim = d.flag()};
        const std::int64_t k = d.number(0, 4);
        const bool fits =
            resolved(options.dim, x.shape().size()) && k >= 1 && k <= length_along(x, options.dim);
        return Trial{call({x}, k, options),
                     fits ? one_left(x, options.dim, options.keepdim) : refused()};
      })
      .golden({"", "torch.kthvalue(x0, 2)", "distinct(3, 5)"}, 2, {})
      .golden({"keepdim", "torch.kthvalue(x0, 1, 0, keepdim=True)", "distinct(4, 3)"}, 1,
              {.dim = 0, .keepdim = true})
      .smoke(smoke_rows("kthvalue", {f32}, kSame), 7, {});
  using How = QuantileInterpolation;
  row("quantile", CALL(quantile(x[0], q, o), double q, const QuantileOptions& o))
      .test({.oracle = quantile_of(0, 0.3),
             .operands = {kDistinct},
             .shapes = {{{7}}, {{4, 3}}, {{1, 2}}, {{5, 2, 2}}}},
            0.3, {.dim = 0})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(0, 3);
        const QuantileOptions o = draw_quantile(d, x);
        const double q = d.real(0, 1);
        return Trial{call({x}, q, o), q >= 0 && q <= 1 ? shares_of(x, o) : refused()};
      })
      .golden({"", "torch.quantile(x0, 0.3)", "distinct(3, 5)"}, 0.3, {})
      .golden({"lower", "torch.quantile(x0, 0.4, 0, interpolation='lower')", "distinct(5, 2)"}, 0.4,
              {.dim = 0, .interpolation = How::lower})
      .golden({"higher", "torch.quantile(x0, 0.4, 0, interpolation='higher')", "distinct(5, 2)"},
              0.4, {.dim = 0, .interpolation = How::higher})
      .golden(
          {"midpoint", "torch.quantile(x0, 0.4, 0, interpolation='midpoint')", "distinct(5, 2)"},
          0.4, {.dim = 0, .interpolation = How::midpoint})
      .golden({"nearest", "torch.quantile(x0, 0.4, 0, interpolation='nearest')", "distinct(5, 2)"},
              0.4, {.dim = 0, .interpolation = How::nearest});
  row("quantile", CALL(quantile(x[0], x[1], o), const QuantileOptions& o))
      .test({.variant = "of all, several shares",
             .oracle =
                 [](const std::vector<Array>& x) {
                   Array y{x[1].shape, {}};
                   const Array all{{x[0].numel()}, x[0].values};
                   for (const double q : x[1].values)
                     y.values.push_back(quantile_of(0, q)({all})[0][0]);
                   return std::vector<Array>{y};
                 },
             .operands = {kDistinct, {.low = 0.05, .high = 0.95, .kinks = {1 / 3.0, 2 / 3.0}}},
             .shapes = {{{4}, {3}}, {{2, 2}, Shape{}}, {{4}, {0}}},
             .factor = 4})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.floats(0, 3);
        const QuantileOptions o = draw_quantile(d, x);
        const std::int64_t count = d.below(4);
        Expected expected = shares_of(x, o);
        if (expected) (*expected)[0].insert((*expected)[0].begin(), count);
        return Trial{call({x, full({count}, 0.25, {.device = x.device()})}, o), expected};
      })
      .golden({"shares", "torch.quantile(x0, x1, 1, keepdim=True)",
               "distinct(3, 5), real(3, low=0.1, high=0.9)"},
              {.dim = 1, .keepdim = true});
});

const Rows running_extreme_rows("space", [] {
  test_running(row("cummax", CALL(cummax(x[0], dim), std::int64_t dim)), true)
      .golden({"", "torch.cummax(x0, 1)", "distinct(3, 6)"}, 1)
      .golden({"ties", "torch.cummax(x0, 0)", "whole(9, 2, high=2)"}, 0);
  row("cummax", CALL(cummax(x[0], 1).values)).smoke(smoke_rows("cummax", {f32}, kSame));
  row("cummax", CALL(cummax(x[0].flatten(), 0).indices))
      .smoke(smoke_rows("cummax, long", {f32}, kSame));
  test_running(row("cummin", CALL(cummin(x[0], dim), std::int64_t dim)), false)
      .golden({"", "torch.cummin(x0, 0)", "distinct(6, 3)"}, 0);
  row("median", CALL(median(x[0])))
      .test({.variant = "of all",
             .oracle =
                 [](const std::vector<Array>& x) {
                   std::vector<double> values = x[0].values;
                   std::sort(values.begin(), values.end());
                   return std::vector<Array>{{Shape{}, {values[(values.size() - 1) / 2]}}};
                 },
             .operands = {kDistinct},
             .shapes = {{Shape{}}, {{8}}, {{3, 3}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        return Trial{call({x}), gives(Sizes{})};
      })
      .golden({"", "torch.median", "distinct(3, 4)"})
      .golden({"nan", "torch.median", "given([1.0, NAN, 3.0])"});
  row("median", CALL(median(x[0], dim, {keepdim}), std::int64_t dim, bool keepdim))
      .test({.oracle = middle_of_columns(false),
             .operands = {kDistinct},
             .shapes = {{{7}}, {{6}}, {{5, 3}}, {{4, 2, 2}}, {{1}}}},
            0, false)
      .test({.variant = "keepdim",
             .oracle = middle_of_columns(true),
             .operands = {kDistinct},
             .shapes = {{{7}}, {{4, 3}}}},
            0, true)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const std::int64_t dim = d.dim(x.dim());
        const bool keepdim = d.flag();
        return Trial{call({x}, dim, keepdim), one_left(x, dim, keepdim)};
      })
      .golden({"one dimension", "torch.median(x0, 0)", "distinct(6, 3)"}, 0, false)
      .golden({"keepdim", "torch.median(x0, 1, True)", "distinct(3, 5)"}, 1, true);
  row("median", CALL(median(x[0], 1).values)).smoke(smoke_rows("median", {f32}, kSame));
});

}  // namespace
