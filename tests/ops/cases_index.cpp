// Cases of the ops that join and index tensors.
#include "places.h"
#include "samples.h"

using namespace cases;
using namespace mezzo;

namespace {

std::int64_t integer(const Array& x, std::int64_t i) { return static_cast<std::int64_t>(x[i]); }

Tensor ints(const std::vector<double>& values, const Shape& shape) {
  return tensor(values, shape, {.dtype = i64, .device = test_device()});
}

// ---- joining ------------------------------------------------------------------------------------

Oracle cat_along(int dim) {
  return [dim](const std::vector<Array>& x) {
    Shape shape = x[0].shape;
    shape[dim] = 0;
    for (const Array& a : x) shape[dim] += a.shape[dim];
    Array y{shape, {}};
    for (std::int64_t i = 0; i < numel(shape); ++i) {
      Place place = place_of(shape, i);
      std::size_t part = 0;
      std::int64_t& along = place[static_cast<std::size_t>(dim)];
      while (along >= x[part].shape[dim]) along -= x[part++].shape[dim];
      y.values.push_back(x[part][position_of(x[part].shape, place)]);
    }
    return std::vector<Array>{y};
  };
}

Oracle stack_along(int dim) {
  return [dim](const std::vector<Array>& x) {
    Shape shape = x[0].shape;
    shape.insert(dim, static_cast<std::int64_t>(x.size()));
    Array y{shape, {}};
    for (std::int64_t i = 0; i < numel(shape); ++i) {
      Place place = place_of(shape, i);
      const auto part = static_cast<std::size_t>(place[static_cast<std::size_t>(dim)]);
      place.erase(place.begin() + dim);
      y.values.push_back(x[part][position_of(x[part].shape, place)]);
    }
    return std::vector<Array>{y};
  };
}

// ---- one index per element ----------------------------------------------------------------------

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

std::vector<Array> pairs(const std::vector<Array>& x) {
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

const Registrar joining([] {
  add_case(
      {.op = "cat",
       .call = CALL(cat({x[0], x[1], x[2]}, 1)),
       .oracle = cat_along(1),
       .operands = {{}, {}, {}},
       .shapes = {
           {{2, 3}, {2, 1}, {2, 4}}, {{2, 3, 5}, {2, 0, 5}, {2, 2, 5}}, {{0, 3}, {0, 1}, {0, 2}}}});
  add_case({.op = "cat",
            .variant = "along the first dimension, wide beside narrow",
            .call = CALL(cat({x[0], x[1]}, -1)),
            .oracle = cat_along(0),
            .operands = {{}, {.parameter_like = true}},
            .shapes = {{{5}, {3}}, {{1}, {70}}}});
  add_case(
      {.op = "hstack",
       .call = CALL(hstack({x[0], x[1]})),
       .oracle =
           [](const std::vector<Array>& x) { return cat_along(x[0].shape.rank() == 1 ? 0 : 1)(x); },
       .operands = {{}, {}},
       .shapes = {{{3}, {2}}, {{2, 3}, {2, 1}}, {{2, 0, 2}, {2, 2, 2}}}});
  add_case({.op = "vstack",
            .call = CALL(vstack({x[0], x[1]})),
            .oracle = cat_along(0),
            .operands = {{}, {}},
            .shapes = {{{2, 3}, {1, 3}}, {{0, 3}, {2, 3}}, {{1, 2, 2}, {2, 2, 2}}}});
  add_case({.op = "vstack",
            .variant = "of vectors",
            .call = CALL(vstack({x[0], x[1]})),
            .oracle = stack_along(0),
            .operands = {{}, {}},
            .shapes = {{{3}, {3}}, {{0}, {0}}}});
  add_case({.op = "stack",
            .call = CALL(stack({x[0], x[1]}, 1)),
            .oracle = stack_along(1),
            .operands = {{}, {}},
            .shapes = {{{3}, {3}}, {{2, 3}, {2, 3}}, {{0}, {0}}}});
  add_case({.op = "stack",
            .variant = "of 0-dim tensors",
            .call = CALL(stack({x[0], x[1], x[0]}, -1)),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{{{3}, {x[0][0], x[1][0], x[0][0]}}};
                },
            .operands = {{}, {}},
            .shapes = {{Shape{}, Shape{}}}});
});

const Registrar elements([] {
  add_case(
      {.op = "gather",
       .call = CALL(gather(x[0], 1, x[1])),
       .oracle = gather_along(1),
       .operands = {{}, indices(0, 3)},
       .shapes = {{{3, 4}, {3, 6}}, {{3, 4}, {2, 1}}, {{2, 4, 5}, {2, 3, 4}}, {{3, 4}, {0, 4}}}});
  add_case({.op = "gather",
            .variant = "along the first dimension",
            .call = CALL(gather(x[0], 0, x[1])),
            .oracle = gather_along(0),
            .operands = {{}, indices(0, 2)},
            .shapes = {{{3, 130}, {5, 129}}, {{3}, {8}}, {{4, 2, 3}, {2, 2, 3}}}});
  add_case({.op = "gather",
            .variant = "0-dim",
            .call = CALL(gather(x[0], -1, x[1])),
            .oracle = gather_along(0),
            .operands = {{}, indices(0, 0)},
            .shapes = {{Shape{}, Shape{}}}});
  add_case({.op = "take_along_dim",
            .call = CALL(take_along_dim(x[0], x[1], 1)),
            .oracle =
                [](const std::vector<Array>& x) {
                  const Shape out{x[0].shape[0], x[1].shape[1]};
                  return std::vector<Array>{moved(x[0], out, [&](std::int64_t i) {
                    const std::int64_t row = i / out[1];
                    return row * x[0].shape[1] +
                           static_cast<std::int64_t>(broadcast_at(x[1], out, i));
                  })};
                },
            .operands = {{}, indices(0, 3)},
            .shapes = {{{3, 4}, {1, 2}}, {{3, 4}, {3, 5}}}});
  add_case(
      {.op = "scatter_add",
       .call = CALL(scatter_add(x[0], 1, x[1], x[2])),
       .oracle = scatter_along(1, true),
       .operands = {{}, indices(0, 3), {}},
       .shapes = {
           {{3, 4}, {3, 6}, {3, 6}}, {{3, 4}, {2, 3}, {4, 5}}, {{2, 4, 3}, {2, 9, 3}, {2, 9, 3}}}});
  add_case({.op = "scatter_add",
            .variant = "0-dim and empty",
            .call = CALL(scatter_add(x[0], 0, x[1], x[2])),
            .oracle = scatter_along(0, true),
            .operands = {{}, indices(0, 0), {}},
            .shapes = {{Shape{}, Shape{}, Shape{}}, {{3}, {0}, {0}}, {{3}, {0}, {2}}}});
  const Array order{{2, 3}, {2, 0, 3, 1, 3, 0}}, repeated{{2, 3}, {2, 0, 2, 1, 1, 1}};
  add_case({.op = "scatter",
            .call = CALL(scatter(x[0], 1, ints({2, 0, 3, 1, 3, 0}, {2, 3}), x[1])),
            .oracle = with_index(scatter_along(1, false), order),
            .operands = {{}, {}},
            .shapes = {{{2, 4}, {2, 3}}, {{3, 5}, {4, 3}}}});
  add_case({.op = "scatter",
            .variant = "several elements to one place",
            .call = CALL(scatter(x[0], 1, ints({2, 0, 2, 1, 1, 1}, {2, 3}), x[1])),
            .oracle = with_index(scatter_along(1, false), repeated),
            .operands = {{}, {}},
            .shapes = {{{2, 4}, {2, 3}}, {{3, 3}, {4, 3}}},
            .gradients = false});  // PyTorch's gradients, which differ from finite differences
  add_case({.op = "scatter",
            .variant = "one value",
            .call = CALL(scatter(x[0], 1, x[1], 0.5)),
            .oracle =
                [](std::vector<Array> x) {
                  x.push_back({x[1].shape, std::vector<double>(x[1].values.size(), 0.5)});
                  return scatter_along(1, false)(x);
                },
            .operands = {{}, indices(0, 3)},
            .shapes = {{{3, 4}, {3, 6}}, {{3, 4, 2}, {1, 2, 2}}}});
});

const Registrar rows([] {
  add_case({.op = "index_select",
            .call = CALL(index_select(x[0], 1, x[1])),
            .oracle = rows_along(1),
            .operands = {{}, indices(0, 3)},
            .shapes = {{{3, 4}, {6}}, {{2, 4, 5}, {3}}, {{2, 4}, {0}}, {{0, 4}, {2}}}});
  add_case({.op = "index_select",
            .variant = "along the first dimension",
            .call = CALL(index_select(x[0], 0, x[1])),
            .oracle = rows_along(0),
            .operands = {{}, indices(0, 2)},
            .shapes = {{{3}, {6}}, {{5, 700}, {3}}}});
  add_case({.op = "index_add",
            .call = CALL(index_add(x[0], 1, x[1], x[2], {.alpha = 1.5})),
            .oracle = add_rows_along(1, 1.5),
            .operands = {{}, indices(0, 3), {}},
            .shapes = {{{3, 4}, {6}, {3, 6}}, {{2, 4, 5}, {3}, {2, 3, 5}}, {{2, 4}, {0}, {2, 0}}}});
  add_case({.op = "index_add",
            .variant = "along the first dimension",
            .call = CALL(index_add(x[0], 0, x[1], x[2])),
            .oracle = add_rows_along(0, 1),
            .operands = {{}, indices(0, 2), {}},
            .shapes = {{{3}, {9}, {9}}, {{3, 60}, {5}, {5, 60}}}});
  add_case(
      {.op = "index",
       .call = CALL(index(x[0], {x[1], x[2]})),
       .oracle = pairs,
       .operands = {{}, indices(-3, 2), indices(-4, 3)},
       .shapes = {
           {{3, 4}, {5}, {5}}, {{3, 4}, {2, 1}, {3}}, {{3, 4}, {0}, {1}}, {{3, 4}, Shape{}, {2}}}});
  add_case({.op = "index",
            .variant = "with holes",
            .call = CALL(index(x[0], {Tensor{}, x[1], Tensor{}, x[2]})),
            .oracle = apart_dimensions,
            .operands = {{}, indices(0, 2), indices(0, 3)},
            .shapes = {{{2, 3, 2, 4}, {5}, {5}}, {{1, 3, 3, 4}, {2}, {2}}}});
  add_case({.op = "index",
            .variant = "by a mask",
            .call = CALL(index(x[0], {x[1]})),
            .oracle = where_true,
            .operands = {{}, {.boolean = true}},
            .shapes = {{{3, 4}, {3, 4}}, {{20}, {20}}, {{0}, {0}}}});
  add_case(
      {.op = "index_put",
       .variant = "accumulate",
       .call = CALL(index_put(x[0], {x[1], x[2]}, x[3], {.accumulate = true})),
       .oracle = put_pairs,
       .operands = {{}, indices(-3, 2), indices(-4, 3), {}},
       .shapes = {
           {{3, 4}, {9}, {9}, {9}}, {{3, 4}, {2, 1}, {3}, {1, 3}}, {{3, 4}, {3}, {1}, Shape{}}}});
  add_case({.op = "index_put",
            .call = CALL(index_put(x[0], {Tensor{}, ints({2, 0}, {2})}, x[1])),
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
            .shapes = {{{3, 4}, {3, 2}}, {{3, 3}, {2}}, {{2, 5}, {2, 1}}, {{2, 5}, Shape{}}}});
  add_case(
      {.op = "index_put",
       .variant = "several rows to one place",
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
       .shapes = {{{2, 3, 2}, {2, 2, 2, 2}}, {{2, 3, 2}, {2, 1}}}});
  add_case(
      {.op = "masked_select",
       .call = CALL(masked_select(x[0], x[1])),
       .oracle = where_true,
       .operands = {{}, {.boolean = true}},
       .shapes = {{{3, 4}, {3, 4}}, {{3, 4}, {4}}, {{4}, {2, 4}}, {Shape{}, Shape{}}, {{0}, {0}}}});
  add_case({.op = "nonzero",
            .call = CALL(nonzero(x[0])),
            .oracle = coordinates,
            .operands = {indices(-1, 1)},
            .shapes = {{{3, 4}}, {{50}}, {{2, 3, 2}}, {Shape{}}, {{0, 3}}},
            .gradients = false});
  add_case(
      {.op = "embedding",
       .call = CALL(embedding(x[0], x[1])),
       .oracle = table_rows,
       .operands = {indices(0, 4), {}},
       .shapes = {
           {{7}, {5, 3}}, {{2, 3}, {5, 4}}, {Shape{}, {5, 2}}, {{0}, {5, 3}}, {{40}, {5, 600}}}});
  add_case({.op = "embedding",
            .variant = "by frequency",
            .call = CALL(embedding(x[0], x[1], {.scale_grad_by_freq = true})),
            .oracle = table_rows,
            .operands = {indices(0, 0), {}},
            .shapes = {{{1}, {5, 3}}, {Shape{}, {1, 2}}}});
});

}  // namespace
