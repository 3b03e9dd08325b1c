// Rows of the ops with indices and masks.
#include <algorithm>

#include "../../support/device.h"
#include "../places.h"
#include "../row.h"
#include "smoke_lines.h"

using namespace cases;
using namespace rows;
using namespace mezzo;
using mezzo::testing::test_device;

namespace {

std::int64_t integer(const Array& x, std::int64_t i) { return static_cast<std::int64_t>(x[i]); }

Tensor ints(const std::vector<double>& values, const Shape& shape) {
  return tensor(values, shape, {.dtype = i64, .device = test_device()});
}

Oracle gather_along(int dim) {
  return [dim](const std::vector<Array>& x) {
    Array y{x[1].shape, {}};
    for (std::int64_t i = 0; i < x[1].numel(); ++i) {
      Place place = place_of(x[1].shape, i);
      if (!place.empty()) place[static_cast<std::size_t>(dim)] = integer(x[1], i);
      y.values.push_back(x[0][position_of(x[0].shape, place)]);
    }
    return std::vector<Array>{y};
  };
}

/** Operands: x, index, src. */
Oracle scatter_along(int dim, bool add) {
  return [dim, add](const std::vector<Array>& x) {
    Array y = x[0];
    for (std::int64_t i = 0; i < x[1].numel(); ++i) {
      Place place = place_of(x[1].shape, i);
      const double value = x[2][position_of(x[2].shape, place)];
      if (!place.empty()) place[static_cast<std::size_t>(dim)] = integer(x[1], i);
      double& target = y.values[static_cast<std::size_t>(position_of(y.shape, place))];
      target = add ? target + value : value;
    }
    return std::vector<Array>{y};
  };
}

/** Returns the oracle with a constant as operand 1. */
Oracle with_index(const Oracle& oracle, const Array& index) {
  return [oracle, index](std::vector<Array> x) {
    x.insert(x.begin() + 1, index);
    return oracle(x);
  };
}

// ---- rows ---------------------------------------------------------------------------------------

/** Operands: x, 1-D index. */
Oracle rows_along(int dim) {
  return [dim](const std::vector<Array>& x) {
    Shape shape = x[0].shape;
    shape[dim] = x[1].numel();
    Array y{shape, {}};
    for (std::int64_t i = 0; i < numel(shape); ++i) {
      Place place = place_of(shape, i);
      std::int64_t& along = place[static_cast<std::size_t>(dim)];
      along = integer(x[1], along);
      y.values.push_back(x[0][position_of(x[0].shape, place)]);
    }
    return std::vector<Array>{y};
  };
}

/** Operands: x, 1-D index, src. */
Oracle add_rows_along(int dim, double alpha) {
  return [dim, alpha](const std::vector<Array>& x) {
    Array y = x[0];
    for (std::int64_t i = 0; i < x[2].numel(); ++i) {
      Place place = place_of(x[2].shape, i);
      std::int64_t& along = place[static_cast<std::size_t>(dim)];
      along = integer(x[1], along);
      y.values[static_cast<std::size_t>(position_of(y.shape, place))] += alpha * x[2][i];
    }
    return std::vector<Array>{y};
  };
}

/** Returns the position of x[i, j] in a matrix for indices broadcast to the result. Negative
 *  indices wrap. Operands: x, i, j. */
std::int64_t pair_place(const std::vector<Array>& x, const Shape& out, std::int64_t at) {
  const auto wrap = [](double v, std::int64_t size) {
    return static_cast<std::int64_t>(v) + (v < 0 ? size : 0);
  };
  const std::int64_t i = wrap(broadcast_at(x[1], out, at), x[0].shape[0]),
                     j = wrap(broadcast_at(x[2], out, at), x[0].shape[1]);
  return i * x[0].shape[1] + j;
}

std::vector<Array> pairs_oracle(const std::vector<Array>& x) {
  const Shape out = broadcast_shapes(x[1].shape, x[2].shape, "oracle");
  return {moved(x[0], out, [&](std::int64_t at) { return pair_place(x, out, at); })};
}

/** Operands: x, i, j, values. */
std::vector<Array> put_pairs(const std::vector<Array>& x) {
  const Shape out = broadcast_shapes(x[1].shape, x[2].shape, "oracle");
  Array y = x[0];
  for (std::int64_t at = 0; at < numel(out); ++at)
    y.values[static_cast<std::size_t>(pair_place(x, out, at))] += broadcast_at(x[3], out, at);
  return {y};
}

/** Computes x[:, index, :, index2] of a 4-D x: the indexed dimension comes first in the result.
 *  Operands: x, index, index2, both 1-D. */
std::vector<Array> apart_dimensions(const std::vector<Array>& x) {
  const Shape &s = x[0].shape, out{x[1].numel(), s[0], s[2]};
  return {moved(x[0], out, [&](std::int64_t at) {
    const Place p = place_of(out, at);
    return position_of(s, {p[1], integer(x[1], p[0]), p[2], integer(x[2], p[0])});
  })};
}

std::vector<Array> where_true(const std::vector<Array>& x) {
  const Shape shape = broadcast_shapes(x[0].shape, x[1].shape, "oracle");
  Array y{{0}, {}};
  for (std::int64_t i = 0; i < numel(shape); ++i)
    if (broadcast_at(x[1], shape, i) != 0) y.values.push_back(broadcast_at(x[0], shape, i));
  y.shape[0] = static_cast<std::int64_t>(y.values.size());
  return {y};
}

std::vector<Array> coordinates(const std::vector<Array>& x) {
  Array y{{0, x[0].shape.rank()}, {}};
  for (std::int64_t i = 0; i < x[0].numel(); ++i)
    if (x[0][i] != 0) {
      ++y.shape[0];
      for (const std::int64_t p : place_of(x[0].shape, i))
        y.values.push_back(static_cast<double>(p));
    }
  return {y};
}

/** Operands: index, weight. */
std::vector<Array> table_rows(const std::vector<Array>& x) {
  Shape shape = x[0].shape;
  const std::int64_t dim = x[1].shape[1];
  shape.push_back(dim);
  return {
      moved(x[1], shape, [&](std::int64_t i) { return integer(x[0], i / dim) * dim + i % dim; })};
}

Operand indices(std::int64_t low, std::int64_t high) {
  return {.low = static_cast<double>(low), .high = static_cast<double>(high), .integers = true};
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

Tensor ints(const std::vector<double>& values) {
  return ints(values, {static_cast<std::int64_t>(values.size())});
}

/** Draws a shape of x's rank that exceeds x's sizes only along dim. */
Shape index_shape(FuzzDraw& d, const Tensor& x, std::int64_t dim) {
  if (d.chance(0.1)) return d.shape();
  Shape shape = x.shape();
  for (std::int64_t& size : shape)
    if (size < 1000 && d.flag()) size = std::min<std::int64_t>(size, 1 + d.below(3));
  if (const auto at = resolved(dim, shape.size()); at && shape.rank() > 0)
    shape[static_cast<std::int64_t>(*at)] = d.below(5);
  return shape;
}

/** Draws x, an index of rows along dim, and the rows; `others` are the call's arguments behind
 *  dim. */
template <class... Others> auto by_rows(Others... others) {
  return [=](FuzzDraw& d, const auto& call) {
    const Tensor x = d.tensor();
    const std::int64_t dim = d.dim(x.dim()), rows = d.below(4);
    const Tensor index = d.index(d.chance(0.1) ? d.shape() : Shape{rows}, length_along(x, dim));
    Shape source = x.shape();
    if (const auto at = resolved(dim, source.size()); at && source.rank() > 0)
      source[static_cast<std::int64_t>(*at)] = rows;
    const Tensor src = d.chance(0.1) ? d.tensor() : d.tensor(source, x.dtype());
    return Trial{call({x, index, src}, dim, others...),
                 resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
  };
}

/** Draws x, an index of elements along dim, and as many elements. */
constexpr auto by_elements = [](FuzzDraw& d, const auto& call) {
  const Tensor x = d.tensor();
  const std::int64_t dim = d.dim(x.dim());
  const Shape shape = index_shape(d, x, dim);
  const Tensor index = d.index(shape, length_along(x, dim));
  const Tensor src = d.tensor(d.chance(0.1) ? d.shape() : shape, x.dtype());
  return Trial{call({x, index, src}, dim),
               resolved(dim, x.shape().size()) ? gives(sizes(x)) : refused()};
};

/** Draws index tensors, masks and undefined indices for the dimensions of x. */
std::vector<Tensor> some_indices(FuzzDraw& d, const Tensor& x) {
  std::vector<Tensor> indices;
  const Shape shape = d.shape(0, 2);
  for (int i = 0; i < x.dim() && d.chance(0.7); ++i) {
    const double kind = d.real(0, 1);
    // A device counts the elements of an expanded mask, up to 2^53 of them, without the copy that
    // would run out of memory.
    const bool is_countable = x.shape()[i] < 100000 || test_device() == cpu;
    if (kind < 0.2)
      indices.push_back({});
    else if (kind < 0.4 && is_countable)
      indices.push_back(d.mask(d.chance(0.1) ? d.shape() : Shape{x.shape()[i]}));
    else
      indices.push_back(d.index(d.like(shape), x.shape()[i]));
  }
  return indices;
}

/** Returns the operands from number `first` on, without the last `left_out`. */
Tensors behind(const Tensors& x, std::ptrdiff_t first, std::ptrdiff_t left_out = 0) {
  return {x.begin() + first, x.end() - left_out};
}

Tensors joined_tensors(Tensors first, const Tensors& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

const char* const kPlaces = "real(3, 5), given([[0, 2, 1, 3], [3, 1, 0, 2], [1, 0, 3, 2]])";

const Rows element_rows("index", [] {
  row("gather", CALL(gather(x[0], dim, x[1]), std::int64_t dim))
      .test({.oracle = gather_along(1),
             .operands = {{}, indices(0, 3)},
             .shapes =
                 {{{3, 4}, {3, 6}}, {{3, 4}, {2, 1}}, {{2, 4, 5}, {2, 3, 4}}, {{3, 4}, {0, 4}}}},
            1)
      .test({.variant = "along the first dimension",
             .oracle = gather_along(0),
             .operands = {{}, indices(0, 2)},
             .shapes = {{{3, 130}, {5, 129}}, {{3}, {8}}, {{4, 2, 3}, {2, 2, 3}}}},
            0)
      .test({.variant = "0-dim",
             .oracle = gather_along(0),
             .operands = {{}, indices(0, 0)},
             .shapes = {{Shape{}, Shape{}}}},
            -1)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const std::int64_t dim = d.dim(x.dim());
        const Tensor index = d.index(index_shape(d, x, dim), length_along(x, dim));
        return Trial{call({x, index}, dim),
                     resolved(dim, x.shape().size()) ? gives(sizes(index)) : refused()};
      })
      .golden({"", "torch.gather(x0, 1, x1)", "real(3, 4), whole(3, 5, high=3)"}, 1)
      .golden({"first dimension", "torch.gather(x0, 0, x1)", "real(3, 4), whole(2, 3, high=2)"}, 0)
      .smoke(smoke_indexed("gather", kSame), 0);
  row("take_along_dim", CALL(take_along_dim(x[0], x[1], dim), std::int64_t dim))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   const Shape out{x[0].shape[0], x[1].shape[1]};
                   return std::vector<Array>{moved(x[0], out, [&](std::int64_t i) {
                     const std::int64_t row = i / out[1];
                     return row * x[0].shape[1] +
                            static_cast<std::int64_t>(broadcast_at(x[1], out, i));
                   })};
                 },
             .operands = {{}, indices(0, 3)},
             .shapes = {{{3, 4}, {1, 2}}, {{3, 4}, {3, 5}}}},
            1)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const std::int64_t dim = d.dim(x.dim());
        const Tensor index = d.index(index_shape(d, x, dim), length_along(x, dim));
        Expected expected = refused();
        if (resolved(dim, x.shape().size()) && x.dim() == index.dim()) {
          const auto a = resized(sizes(x), dim, 1), b = resized(sizes(index), dim, 1);
          if (const auto both = broadcast(a, *b))
            expected = gives(resized(*both, dim, length_along(index, dim)));
        }
        return Trial{call({x, index}, dim), expected};
      })
      .golden({"", "torch.take_along_dim(x0, x1, 1)", "real(3, 4), whole(3, 2, high=3)"}, 1);
  row("take_along_dim", CALL(take_along_dim(x[0], x[1])))
      .golden({"flat", "torch.take_along_dim", "real(3, 4), whole(5, high=11)"});
  const Array order{{2, 3}, {2, 0, 3, 1, 3, 0}}, repeated{{2, 3}, {2, 0, 2, 1, 1, 1}};
  row("scatter", CALL(scatter(x[0], dim, x[1], x[2]), std::int64_t dim))
      .in_place(CALL(scatter_(x[0], dim, x[1], x[2]), std::int64_t dim))
      .test({.call = CALL(scatter(x[0], 1, ints({2, 0, 3, 1, 3, 0}, {2, 3}), x[1])),
             .oracle = with_index(scatter_along(1, false), order),
             .operands = {{}, {}},
             .shapes = {{{2, 4}, {2, 3}}, {{3, 5}, {4, 3}}}})
      .test({.variant = "several elements to one place",
             .call = CALL(scatter(x[0], 1, ints({2, 0, 2, 1, 1, 1}, {2, 3}), x[1])),
             .oracle = with_index(scatter_along(1, false), repeated),
             .operands = {{}, {}},
             .shapes = {{{2, 4}, {2, 3}}, {{3, 3}, {4, 3}}},
             .gradients = false})
      .fuzz(by_elements)
      .golden({"", "torch.scatter(x0, 1, x1, x2)", std::string(kPlaces) + ", real(3, 4)"}, 1)
      .smoke(smoke_indexed("scatter", kSame, 3), 0);
  row("scatter", CALL(scatter(x[0], dim, x[1], value), std::int64_t dim, double value))
      .test({.variant = "one value",
             .oracle =
                 [](std::vector<Array> x) {
                   x.push_back({x[1].shape, std::vector<double>(x[1].values.size(), 0.5)});
                   return scatter_along(1, false)(x);
                 },
             .operands = {{}, indices(0, 3)},
             .shapes = {{{3, 4}, {3, 6}}, {{3, 4, 2}, {1, 2, 2}}}},
            1, 0.5)
      .golden({"number", "torch.scatter(x0, 1, x1, 2.5)", kPlaces}, 1, 2.5);
  row("scatter_add", CALL(scatter_add(x[0], dim, x[1], x[2]), std::int64_t dim))
      .in_place(CALL(scatter_add_(x[0], dim, x[1], x[2]), std::int64_t dim))
      .test({.oracle = scatter_along(1, true),
             .operands = {{}, indices(0, 3), {}},
             .shapes = {{{3, 4}, {3, 6}, {3, 6}},
                        {{3, 4}, {2, 3}, {4, 5}},
                        {{2, 4, 3}, {2, 9, 3}, {2, 9, 3}}}},
            1)
      .test({.variant = "0-dim and empty",
             .oracle = scatter_along(0, true),
             .operands = {{}, indices(0, 0), {}},
             .shapes = {{Shape{}, Shape{}, Shape{}}, {{3}, {0}, {0}}, {{3}, {0}, {2}}}},
            0)
      .fuzz(by_elements)
      .golden(
          {"", "torch.scatter_add(x0, 1, x1, x2)", "real(3, 5), whole(3, 7, high=4), real(3, 7)"},
          1)
      .golden_in_place({"in place", "(x0 * 1).scatter_add_(0, x1, x2)",
                        "real(3, 5), whole(4, 2, high=2), real(4, 2)"},
                       0)
      .smoke(smoke_indexed("scatter_add", kClose, 3), 0);
});

const Rows whole_rows("index", [] {
  row("index_select", CALL(index_select(x[0], dim, x[1]), std::int64_t dim))
      .test({.oracle = rows_along(1),
             .operands = {{}, indices(0, 3)},
             .shapes = {{{3, 4}, {6}}, {{2, 4, 5}, {3}}, {{2, 4}, {0}}, {{0, 4}, {2}}}},
            1)
      .test({.variant = "along the first dimension",
             .oracle = rows_along(0),
             .operands = {{}, indices(0, 2)},
             .shapes = {{{3}, {6}}, {{5, 700}, {3}}}},
            0)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const std::int64_t dim = d.dim(x.dim());
        const Tensor index =
            d.index(d.chance(0.1) ? d.shape() : Shape{d.below(4)}, length_along(x, dim));
        return Trial{call({x, index}, dim), index.dim() <= 1
                                                ? gives(resized(sizes(x), dim, count(sizes(index))))
                                                : refused()};
      })
      .golden({"", "torch.index_select(x0, 1, x1)", "real(3, 4), whole(6, high=3)"}, 1)
      .smoke(smoke_indexed("index_select", kSame, 2, true), 0);
  row("index_add",
      CALL(index_add(x[0], dim, x[1], x[2], o), std::int64_t dim, const IndexAddOptions& o))
      .in_place(
          CALL(index_add_(x[0], dim, x[1], x[2], o), std::int64_t dim, const IndexAddOptions& o))
      .test({.oracle = add_rows_along(1, 1.5),
             .operands = {{}, indices(0, 3), {}},
             .shapes = {{{3, 4}, {6}, {3, 6}}, {{2, 4, 5}, {3}, {2, 3, 5}}, {{2, 4}, {0}, {2, 0}}}},
            1, {.alpha = 1.5})
      .test({.variant = "along the first dimension",
             .oracle = add_rows_along(0, 1),
             .operands = {{}, indices(0, 2), {}},
             .shapes = {{{3}, {9}, {9}}, {{3, 60}, {5}, {5, 60}}}},
            0, {})
      .fuzz(by_rows(IndexAddOptions{}))
      .golden({"", "torch.index_add(x0, 1, x1, x2, alpha=0.5)",
               "real(3, 4), whole(6, high=3), real(3, 6)"},
              1, {.alpha = 0.5})
      .smoke(smoke_indexed("index_add", kClose, 3, true), 0, {});
  row("embedding", CALL(embedding(x[0], x[1], o), const EmbeddingOptions& o))
      .test({.oracle = table_rows,
             .operands = {indices(0, 4), {}},
             .shapes = {{{7}, {5, 3}},
                        {{2, 3}, {5, 4}},
                        {Shape{}, {5, 2}},
                        {{0}, {5, 3}},
                        {{40}, {5, 600}}}})
      .test({.variant = "by frequency",
             .oracle = table_rows,
             .operands = {indices(0, 0), {}},
             .shapes = {{{1}, {5, 3}}, {Shape{}, {1, 2}}}},
            {.scale_grad_by_freq = true})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor weight = d.floats(d.chance(0.9) ? d.shape(2, 2) : d.shape());
        const Tensor index = d.index(d.shape(0, 3), weight.dim() > 0 ? weight.shape()[0] : 1);
        const std::int64_t padding = d.number(-2, 3);
        const EmbeddingOptions options{
            .padding_idx = d.flag() ? std::optional(padding) : std::nullopt,
            .scale_grad_by_freq = d.flag()};
        Sizes shape = sizes(index);
        if (weight.dim() == 2) shape.push_back(weight.shape()[1]);
        return Trial{call({index, weight}, options), weight.dim() == 2 ? gives(shape) : refused()};
      })
      .golden({"", "F.embedding", "whole(2, 3, high=4), real(5, 3)"})
      .golden(
          {"padding, by frequency", "F.embedding(x0, x1, padding_idx=1, scale_grad_by_freq=True)",
           "whole(9, high=4), real(5, 2)"},
          {.padding_idx = 1, .scale_grad_by_freq = true})
      .smoke(smoke_embedding(false))
      .smoke(smoke_embedding(true));
});

const Rows overwritten_rows("space", [] {
  row("index_copy", CALL(index_copy(x[0], dim, x[1], x[2]), std::int64_t dim))
      .in_place(CALL(index_copy_(x[0], dim, x[1], x[2]), std::int64_t dim))
      .test({.call = CALL(index_copy(x[0], 0, ints({2, 0}), x[1])),
             .oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{overwritten(x[0], x[1], 0, {2, 0})};
                 },
             .operands = {{}, {}},
             .shapes = {{{3}, {2}}, {{3, 4}, {2, 4}}, {{4, 0}, {2, 0}}}})
      .test({.variant = "in place, along the last dimension",
             .call = CALL(index_copy_(x[0].clone(), -1, ints({1, 3}), x[1])),
             .oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{
                       overwritten(x[0], x[1], x[0].shape.rank() - 1, {1, 3})};
                 },
             .operands = {{}, {}},
             .shapes = {{{4}, {2}}, {{3, 4}, {3, 2}}, {{2, 2, 5}, {2, 2, 2}}}})
      .test({.variant = "several rows to one place",
             .call = CALL(index_copy(x[0], 1, ints({2, 0, 2, 2}), x[1])),
             .oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{overwritten(x[0], x[1], 1, {2, 0, 2, 2})};
                 },
             .operands = {{}, {}},
             .shapes = {{{2, 3}, {2, 4}}, {{2, 3, 2}, {2, 4, 2}}}})
      .fuzz(by_rows())
      .golden({"", "torch.index_copy(x0, 1, x1, x2)", "real(3, 4), given([2, 0]), real(3, 2)"}, 1)
      .golden_in_place(
          {"in place", "(x0 * 1).index_copy_(0, x1, x2)", "real(3, 4), given([2, 0]), real(2, 4)"},
          0);
  row("index_fill", CALL(index_fill(x[0], dim, x[1], x[2]), std::int64_t dim))
      .test({.call = CALL(index_fill(x[0], 1, ints({0, 2}), x[1])),
             .oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{overwritten(x[0], x[1], 1, {0, 2})};
                 },
             .operands = {{}, {}},
             .shapes = {{{2, 3}, Shape{}}, {{2, 4, 2}, Shape{}}, {{0, 3}, Shape{}}}})
      .test({.variant = "a tensor, twice at one place",
             .call = CALL(index_fill(x[0], 0, ints({1, 0, 1}), x[1])),
             .oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{overwritten(x[0], x[1], 0, {1, 0, 1})};
                 },
             .operands = {{}, {}},
             .shapes = {{{3}, Shape{}}, {{2, 3}, Shape{}}}})
      .golden({"", "torch.index_fill(x0, 1, x1, x2)", "real(3, 4), given([2, 0]), real()"}, 1);
  row("index_fill", CALL(index_fill(x[0], dim, x[1], value), std::int64_t dim, double value))
      .in_place(CALL(index_fill_(x[0], dim, x[1], value), std::int64_t dim, double value))
      .test({.variant = "in place, a number, twice at one place",
             .call = CALL(index_fill_(x[0].clone(), 0, ints({1, 1}), 3.5)),
             .oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{overwritten(x[0], {Shape{}, {3.5}}, 0, {1, 1})};
                 },
             .shapes = {{{2}}, {{3, 2}}}})
      .fuzz(by_rows(2.5))
      .golden({"number", "torch.index_fill(x0, 0, x1, 2.5)", "real(3, 4), given([2, 0])"}, 0, 2.5);
});

const Rows list_rows("index", [] {
  row("index", CALL(index(x[0], behind(x, 1))))
      .test({.oracle = pairs_oracle,
             .operands = {{}, indices(-3, 2), indices(-4, 3)},
             .shapes = {{{3, 4}, {5}, {5}},
                        {{3, 4}, {2, 1}, {3}},
                        {{3, 4}, {0}, {1}},
                        {{3, 4}, Shape{}, {2}}}})
      .test({.variant = "with holes",
             .call = CALL(index(x[0], {Tensor{}, x[1], Tensor{}, x[2]})),
             .oracle = apart_dimensions,
             .operands = {{}, indices(0, 2), indices(0, 3)},
             .shapes = {{{2, 3, 2, 4}, {5}, {5}}, {{1, 3, 3, 4}, {2}, {2}}}})
      .test({.variant = "by a mask",
             .oracle = where_true,
             .operands = {{}, {.boolean = true}},
             .shapes = {{{3, 4}, {3, 4}}, {{20}, {20}}, {{0}, {0}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor(d.shape(1, 4), d.dtype());
        const auto run = call(joined_tensors({x}, some_indices(d, x)));
        // With masks the sizes depend on values; other tests of the op check the number of
        // dimensions.
        return Trial{[=] { return run(), Tensors{}; }, std::vector<Sizes>{}};
      })
      .golden(
          {"", "x0[x1, x2]", "real(3, 4, 2), whole(5, low=-3, high=2), whole(5, low=-4, high=3)"})
      .golden({"mask", "x0[x1]", "real(3, 4), mask(3)"});
  row("index", CALL(index(x[0], {Tensor{}, x[1]})))
      .golden({"hole", "x0[:, x1]", "real(3, 4, 2), whole(2, 2, high=3)"});
  row("index_put", CALL(index_put(x[0], behind(x, 1, 1), x.back(), o), const IndexPutOptions& o))
      .in_place(CALL(index_put_(x[0], behind(x, 1, 1), x.back(), o), const IndexPutOptions& o))
      .test({.variant = "accumulate",
             .oracle = put_pairs,
             .operands = {{}, indices(-3, 2), indices(-4, 3), {}},
             .shapes = {{{3, 4}, {9}, {9}, {9}},
                        {{3, 4}, {2, 1}, {3}, {1, 3}},
                        {{3, 4}, {3}, {1}, Shape{}}}},
            {.accumulate = true})
      .test({.call = CALL(index_put(x[0], {Tensor{}, ints({2, 0}, {2})}, x[1])),
             .oracle =
                 [](const std::vector<Array>& x) {
                   Array y = x[0];
                   for (std::int64_t r = 0; r < y.shape[0]; ++r) {
                     y.values[static_cast<std::size_t>(r * y.shape[1] + 2)] =
                         broadcast_at(x[1], {y.shape[0], 2}, 2 * r);
                     y.values[static_cast<std::size_t>(r * y.shape[1])] =
                         broadcast_at(x[1], {y.shape[0], 2}, 2 * r + 1);
                   }
                   return std::vector<Array>{y};
                 },
             .operands = {{}, {}},
             .shapes = {{{3, 4}, {3, 2}}, {{3, 3}, {2}}, {{2, 5}, {2, 1}}, {{2, 5}, Shape{}}}})
      .test(
          {.variant = "several rows to one place",
           .call = CALL(index_put(x[0], {Tensor{}, ints({1, 0, -1, 1}, {2, 2})}, x[1])),
           .oracle =
               [](const std::vector<Array>& x) {
                 constexpr std::int64_t places[] = {1, 0, 2, 1};
                 Array y = x[0];  // of shape [2,3,2]
                 for (std::int64_t i = 0; i < 16; ++i)
                   y.values[static_cast<std::size_t>((i / 8 * 3 + places[i / 2 % 4]) * 2 + i % 2)] =
                       broadcast_at(x[1], {2, 2, 2, 2}, i);
                 return std::vector<Array>{y};
               },
           .operands = {{}, {}},
           .shapes = {{{2, 3, 2}, {2, 2, 2, 2}}, {{2, 3, 2}, {2, 1}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor(d.shape(1, 4), d.dtype());
        const Tensors indices = some_indices(d, x);
        const Tensor values = d.tensor(d.shape(0, 1), x.dtype());
        return Trial{call(joined_tensors({x}, joined_tensors(indices, {values})), {d.flag()}),
                     gives(sizes(x))};
      })
      .golden({"accumulate", "torch.index_put(x0, (x1,), x2, accumulate=True)",
               "real(3, 4), whole(5, high=2), real(5, 4)"},
              {.accumulate = true})
      .smoke({.name = "index_put",
              .dtypes = {f32},
              .operands = smoke_indexed("", kSame, 3, true).operands,
              .passes = 2,
              .expected = kSame});
  row("index_put", CALL(index_put(x[0], {ints({0, 2}), ints({1, 3})}, x[1])))
      .golden({"", "torch.index_put(x0, (torch.tensor([0, 2]), torch.tensor([1, 3])), x1)",
               "real(3, 4), real(2)"});
});

const Rows mask_rows("index", [] {
  row("masked_select", CALL(masked_select(x[0], x[1])))
      .test({.oracle = where_true,
             .operands = {{}, {.boolean = true}},
             .shapes =
                 {{{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{4}, {2, 4}}, {Shape{}, Shape{}}, {{0}, {0}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor(), m = d.mask(d.like(x.shape()));
        return Trial{call({x, m}), broadcast(sizes(x), sizes(m)) ? gives(Sizes{kAny}) : refused()};
      })
      .golden({"", "torch.masked_select", "real(3, 4), mask(3, 4)"});
  Smoke selected = smoke_indexed("masked_select", kSame);
  selected.operands = [make_all = selected.operands](const Maker& make, DType dtype) {
    const Tensor x = make_all(make, dtype)[0];
    return Tensors{x, x > 0};
  };
  row("masked_select", CALL(masked_select(x[0], x[1]))).smoke(selected);
  row("nonzero", CALL(nonzero(x[0])))
      .test({.oracle = coordinates,
             .operands = {indices(-1, 1)},
             .shapes = {{{3, 4}}, {{50}}, {{2, 3, 2}}, {Shape{}}, {{0, 3}}},
             .gradients = false})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        return Trial{call({x}), gives(Sizes{kAny, x.dim()})};
      })
      .golden({"", "torch.nonzero", "whole(3, 4, high=1)"});
  Smoke large = smoke_indexed("nonzero", kSame);
  large.operands = [make_all = large.operands](const Maker& make, DType dtype) {
    return Tensors{make_all(make, dtype)[0] > 1};
  };
  large.bytes = [](const Tensors& x) { return smoke::size_of(x[0]); };
  row("nonzero", CALL(nonzero(x[0]))).smoke(large);
});

const Rows masked_rows("space", [] {
  row("masked_scatter", CALL(masked_scatter(x[0], x[1], x[2])))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   const Shape& shape =
                       x[0].shape.rank() > x[1].shape.rank() ? x[0].shape : x[1].shape;
                   Array y{shape, {}};
                   std::int64_t n = 1, used = 0;
                   for (const std::int64_t s : shape) n *= s;
                   for (std::int64_t i = 0; i < n; ++i)
                     y.values.push_back(broadcast_at(x[1], shape, i) != 0
                                            ? x[2][used++]
                                            : broadcast_at(x[0], shape, i));
                   return std::vector<Array>{y};
                 },
             .operands = {{}, {.boolean = true}, {}},
             .shapes =
                 {{{5}, {5}, {7}}, {{3, 4}, {4}, {4, 3}}, {{4}, {3, 4}, {12}}, {{0}, {0}, {0}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor(), m = d.mask(d.like(x.shape())),
                     source = d.tensor(d.shape(), x.dtype());
        return Trial{call({x, m, source}), gives(broadcast(sizes(x), sizes(m)))};
      })
      .golden({"", "torch.masked_scatter", "real(3, 4), mask(3, 4), real(12)"});
});

}  // namespace
