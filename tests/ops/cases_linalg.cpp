// Cases of the matrix products.
#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

/** Computes alpha * a b + beta * c in plain loops. Batches broadcast; vectors are rows on the left
 *  and columns on the right. */
Array matrix_product(Array a, Array b, double alpha = 1) {
  const bool row = a.shape.rank() == 1, column = b.shape.rank() == 1;
  if (row) a.shape.insert(0, 1);
  if (column) b.shape.insert(1, 1);
  const std::int64_t m = a.shape[a.shape.rank() - 2], k = a.shape.back(), n = b.shape.back();
  const auto batch_of = [](Shape s) {
    s.erase(s.rank() - 1);
    s.erase(s.rank() - 1);
    return s;
  };
  const Shape batch = broadcast_shapes(batch_of(a.shape), batch_of(b.shape), "oracle");
  std::int64_t count = 1;
  for (const std::int64_t size : batch) count *= size;
  // Finds the matrix of an operand at a position of the broadcast batch by broadcasting its index.
  const auto matrix = [&](const Array& x, std::int64_t index) {
    Array numbers{batch_of(x.shape), {}};
    std::int64_t size = 1;
    for (const std::int64_t s : numbers.shape) size *= s;
    for (std::int64_t i = 0; i < size; ++i) numbers.values.push_back(static_cast<double>(i));
    return static_cast<std::int64_t>(broadcast_at(numbers, batch, index));
  };
  Array c{batch, std::vector<double>(static_cast<std::size_t>(count * m * n), 0.0)};
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t from_a = matrix(a, i) * m * k, from_b = matrix(b, i) * k * n;
    for (std::int64_t y = 0; y < m; ++y)
      for (std::int64_t x = 0; x < n; ++x)
        for (std::int64_t p = 0; p < k; ++p)
          c.values[static_cast<std::size_t>((i * m + y) * n + x)] +=
              alpha * a[from_a + y * k + p] * b[from_b + p * n + x];
  }
  if (!row) c.shape.push_back(m);
  if (!column) c.shape.push_back(n);
  return c;
}

Array plus(Array c, const Array& addend, double beta) {
  for (std::int64_t i = 0; i < c.numel(); ++i)
    c.values[static_cast<std::size_t>(i)] += beta * broadcast_at(addend, c.shape, i);
  return c;
}

Array transposed(const Array& x) {
  const std::int64_t rows = x.shape[0], columns = x.shape[1];
  return moved(x, {columns, rows}, [=](std::int64_t i) { return i % rows * columns + i / rows; });
}

std::vector<Array> product(const std::vector<Array>& x) { return {matrix_product(x[0], x[1])}; }

std::vector<Array> added_product(const std::vector<Array>& x) {
  return {plus(matrix_product(x[1], x[2], 0.5), x[0], 2)};
}

std::vector<Array> inner_product(const std::vector<Array>& x) {
  Array a = x[0], b = x[1];
  a.shape.insert(a.shape.rank() - 1, 1);
  b.shape.push_back(1);
  Array c = matrix_product(a, b);
  c.shape.erase(c.shape.rank() - 1);
  c.shape.erase(c.shape.rank() - 1);
  return {c};
}

const Registrar products([] {
  add_case({.op = "matmul",
            .call = CALL(matmul(x[0], x[1])),
            .oracle = product,
            .operands = {{}, {}},
            .shapes = {{{3, 4}, {4, 5}},
                       {{4}, {4}},
                       {{4}, {4, 3}},
                       {{3, 4}, {4}},
                       {{2, 3, 4}, {4, 5}},
                       {{3, 4}, {2, 4, 2}},
                       {{2, 1, 2, 3}, {4, 3, 2}},
                       {{4}, {2, 4, 3}},
                       {{2, 3, 4}, {4}},
                       {{1, 2, 3}, {2, 3, 1}},
                       {{0, 3}, {3, 2}},
                       {{2, 0}, {0, 3}},
                       {{0, 2, 3}, {3, 2}},
                       {{1, 1}, {1, 1}}}});
  add_case({.op = "mm",
            .call = CALL(mm(x[0], x[1])),
            .oracle = product,
            .operands = {{}, {}},
            .shapes = {{{3, 4}, {4, 5}}, {{1, 7}, {7, 1}}, {{2, 0}, {0, 3}}, {{17, 3}, {3, 2}}}});
  add_case({.op = "bmm",
            .call = CALL(bmm(x[0], x[1])),
            .oracle = product,
            .operands = {{}, {}},
            .shapes = {{{2, 3, 4}, {2, 4, 2}}, {{1, 1, 3}, {1, 3, 1}}, {{0, 2, 3}, {0, 3, 2}}}});
  add_case({.op = "mv",
            .call = CALL(mv(x[0], x[1])),
            .oracle = product,
            .operands = {{}, {}},
            .shapes = {{{3, 4}, {4}}, {{1, 1}, {1}}, {{2, 0}, {0}}, {{0, 2}, {2}}}});
  add_case({.op = "dot",
            .call = CALL(dot(x[0], x[1])),
            .oracle = inner_product,
            .operands = {{}, {}},
            .shapes = {{{5}, {5}}, {{1}, {1}}, {{0}, {0}}, {{37}, {37}}}});
  add_case(
      {.op = "vecdot",
       .call = CALL(vecdot(x[0], x[1])),
       .oracle = inner_product,
       .operands = {{}, {}},
       .shapes = {
           {{5}, {5}}, {{3, 4}, {3, 4}}, {{2, 1, 4}, {3, 4}}, {{2, 3}, {3}}, {{2, 0}, {2, 0}}}});
  add_case({.op = "linear",
            .call = CALL(linear(x[0], x[1], x[2])),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{plus(matrix_product(x[0], transposed(x[1])), x[2], 1)};
                },
            .operands = {{}, {}, {}},
            .shapes = {{{3, 4}, {5, 4}, {5}},
                       {{4}, {5, 4}, {5}},
                       {{2, 3, 4}, {5, 4}, {5}},
                       {{2, 3}, {1, 3}, {1}},
                       {{2, 3}, {4, 3}, {2, 4}},
                       {{2, 3}, {4, 3}, {2, 1}},
                       {{0, 3}, {4, 3}, {4}},
                       {{2, 0}, {4, 0}, {4}}}});
  add_case({.op = "linear",
            .variant = "no bias",
            .call = CALL(linear(x[0], x[1])),
            .oracle =
                [](const std::vector<Array>& x) {
                  return std::vector<Array>{matrix_product(x[0], transposed(x[1]))};
                },
            .operands = {{}, {}},
            .shapes = {{{3, 4}, {5, 4}}, {{2, 2, 3}, {4, 3}}}});
});

/** Layers of x[1], x[2], ..., each followed by `between`, the last one by `after`. */
Array chain_of(const std::vector<Array>& x, bool with_bias, double (*between)(double),
               double (*after)(double)) {
  Array h = x[0];
  const std::size_t step = with_bias ? 2 : 1;
  for (std::size_t i = 1; i < x.size(); i += step) {
    h = matrix_product(h, transposed(x[i]));
    if (with_bias) h = plus(h, x[i + 1], 1);
    for (double& v : h.values) v = (i + step < x.size() ? between : after)(v);
  }
  return h;
}

double relu_of(double v) { return v > 0 ? v : 0; }
double gelu_of(double v) { return v * std::erfc(-v / std::sqrt(2.0)) / 2; }
double gelu_tanh_of(double v) {
  return v / 2 *
         (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (v + 0.044715 * v * v * v)));
}
double sigmoid_of(double v) { return 1 / (1 + std::exp(-v)); }
double same(double v) { return v; }

const Registrar linear_chains([] {
  add_case({.op = "mlp",
            .call = CALL(mlp(x[0], {x[1], x[3], x[5]}, {x[2], x[4], x[6]})),
            .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
              return {chain_of(x, true, relu_of, same)};
            },
            .operands = {{}, {}, {}, {}, {}, {}, {}},
            .shapes = {{{3, 4}, {5, 4}, {5}, {6, 5}, {6}, {2, 6}, {2}},
                       {{4}, {5, 4}, {5}, {3, 5}, {3}, {2, 3}, {2}},
                       {{2, 2, 3}, {4, 3}, {4}, {130, 4}, {130}, {3, 130}, {3}},
                       {{0, 4}, {5, 4}, {5}, {3, 5}, {3}, {2, 3}, {2}},
                       {{2, 0}, {3, 0}, {3}, {2, 3}, {2}, {1, 2}, {1}}},
            .factor = 8});
  add_case({.op = "mlp",
            .variant = "relu after the last",
            .call = CALL(mlp(x[0], {x[1], x[2]}, {}, {.activates_last = true})),
            .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
              return {chain_of(x, false, relu_of, relu_of)};
            },
            .operands = {{}, {}, {}},
            .shapes = {{{3, 4}, {5, 4}, {2, 5}}, {{2, 3, 4}, {5, 4}, {3, 5}}},
            .factor = 8});
  add_case({.op = "mlp",
            .variant = "sigmoid",
            .call = CALL(mlp(x[0], {x[1], x[3]}, {x[2], x[4]},
                             {.activation = MlpActivation::sigmoid, .activates_last = true})),
            .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
              return {chain_of(x, true, sigmoid_of, sigmoid_of)};
            },
            .operands = {{}, {}, {}, {}, {}},
            .shapes = {{{3, 4}, {5, 4}, {5}, {2, 5}, {2}}},
            .factor = 8});
  add_case({.op = "mlp",
            .variant = "gelu",
            .call = CALL(mlp(x[0], {x[1], x[3], x[5]}, {x[2], x[4], x[6]},
                             {.activation = MlpActivation::gelu})),
            .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
              return {chain_of(x, true, gelu_of, same)};
            },
            .operands = {{}, {}, {}, {}, {}, {}, {}},
            .shapes = {{{3, 4}, {5, 4}, {5}, {6, 5}, {6}, {2, 6}, {2}},
                       {{0, 4}, {5, 4}, {5}, {3, 5}, {3}, {2, 3}, {2}}},
            .factor = 8});
  add_case({.op = "mlp",
            .variant = "gelu_tanh",
            .call = CALL(mlp(x[0], {x[1], x[3], x[5]}, {x[2], x[4], x[6]},
                             {.activation = MlpActivation::gelu_tanh, .activates_last = true})),
            .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
              return {chain_of(x, true, gelu_tanh_of, gelu_tanh_of)};
            },
            .operands = {{}, {}, {}, {}, {}, {}, {}},
            .shapes = {{{3, 4}, {8, 4}, {8}, {16, 8}, {16}, {2, 16}, {2}},
                       {{4}, {5, 4}, {5}, {3, 5}, {3}, {2, 3}, {2}},
                       {{2, 2, 3}, {4, 3}, {4}, {24, 4}, {24}, {3, 24}, {3}}},
            .factor = 8});
  add_case({.op = "mlp",
            .variant = "one layer",
            .call = CALL(mlp(x[0], {x[1]}, {x[2]}, {.activation = MlpActivation::none})),
            .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
              return {chain_of(x, true, same, same)};
            },
            .operands = {{}, {}, {}},
            .shapes = {{{3, 4}, {5, 4}, {5}}, {{3, 4}, {5, 4}, {1}}}});
});

const Registrar added_products([] {
  add_case({.op = "addmm",
            .call = CALL(addmm(x[0], x[1], x[2], {.beta = 2, .alpha = 0.5})),
            .oracle = added_product,
            .operands = {{}, {}, {}},
            .shapes = {{{3, 5}, {3, 4}, {4, 5}},
                       {{5}, {3, 4}, {4, 5}},
                       {{3, 1}, {3, 4}, {4, 5}},
                       {Shape{}, {2, 3}, {3, 2}},
                       {{2, 2}, {2, 0}, {0, 2}}}});
  add_case({.op = "addmm",
            .variant = "in place",
            .call = CALL(addmm_(x[0].clone(), x[1], x[2], {.beta = 2, .alpha = 0.5})),
            .oracle = added_product,
            .operands = {{}, {}, {}},
            .shapes = {{{3, 5}, {3, 4}, {4, 5}}}});
  add_case({.op = "addmv",
            .call = CALL(addmv(x[0], x[1], x[2], {.beta = 2, .alpha = 0.5})),
            .oracle = added_product,
            .operands = {{}, {}, {}},
            .shapes = {{{3}, {3, 4}, {4}}, {{1}, {3, 4}, {4}}, {Shape{}, {2, 3}, {3}}}});
  add_case(
      {.op = "addr",
       .call = CALL(addr(x[0], x[1], x[2], {.beta = 2, .alpha = 0.5})),
       .oracle =
           [](const std::vector<Array>& x) {
             Array u = x[1], v = x[2];
             u.shape.push_back(1);
             v.shape.insert(0, 1);
             return std::vector<Array>{plus(matrix_product(u, v, 0.5), x[0], 2)};
           },
       .operands = {{}, {}, {}},
       .shapes = {{{3, 4}, {3}, {4}}, {{4}, {3}, {4}}, {Shape{}, {1}, {1}}, {{0, 2}, {0}, {2}}}});
  add_case({.op = "baddbmm",
            .call = CALL(baddbmm(x[0], x[1], x[2], {.beta = 2, .alpha = 0.5})),
            .oracle = added_product,
            .operands = {{}, {}, {}},
            .shapes = {{{2, 3, 2}, {2, 3, 4}, {2, 4, 2}},
                       {{2}, {2, 3, 4}, {2, 4, 2}},
                       {{3, 1}, {2, 3, 1}, {2, 1, 2}}}});
  add_case({.op = "addbmm",
            .call = CALL(addbmm(x[0], x[1], x[2], {.beta = 2, .alpha = 0.5})),
            .oracle =
                [](const std::vector<Array>& x) {
                  const Array all = matrix_product(x[1], x[2], 0.5);
                  const std::int64_t size = all.shape[1] * all.shape[2];
                  Array sum{{all.shape[1], all.shape[2]},
                            std::vector<double>(static_cast<std::size_t>(size), 0.0)};
                  for (std::int64_t i = 0; i < all.numel(); ++i)
                    sum.values[static_cast<std::size_t>(i % size)] += all[i];
                  return std::vector<Array>{plus(sum, x[0], 2)};
                },
            .operands = {{}, {}, {}},
            .shapes = {{{3, 2}, {2, 3, 4}, {2, 4, 2}},
                       {{2}, {3, 1, 2}, {3, 2, 2}},
                       {{2, 2}, {0, 2, 3}, {0, 3, 2}}}});
});

}  // namespace
