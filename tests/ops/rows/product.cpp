// Rows of the matrix products.
#include "../row.h"
#include "letters.h"

using namespace cases;
using namespace rows;
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

Array transposed_array(const Array& x) {
  const std::int64_t rows = x.shape[0], columns = x.shape[1];
  return moved(x, {columns, rows}, [=](std::int64_t i) { return i % rows * columns + i / rows; });
}

std::vector<Array> product_oracle(const std::vector<Array>& x) {
  return {matrix_product(x[0], x[1])};
}

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

/** Layers of x[1], x[2], ..., each followed by `between`, the last one by `after`. */
Array chain_of(const std::vector<Array>& x, bool with_bias, double (*between)(double),
               double (*after)(double)) {
  Array h = x[0];
  const std::size_t step = with_bias ? 2 : 1;
  for (std::size_t i = 1; i < x.size(); i += step) {
    h = matrix_product(h, transposed_array(x[i]));
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
double unchanged(double v) { return v; }

/** Calls mlp on operands x, then a weight and, if biased, a bias for each layer. */
Tensor chain(const Tensors& x, bool biased, const MlpOptions& o) {
  Tensors weights, biases;
  for (std::size_t i = 1; i < x.size(); i += biased ? 2 : 1) {
    weights.push_back(x[i]);
    if (biased) biases.push_back(x[i + 1]);
  }
  return mlp(x[0], weights, biases, o);
}

// ---- arguments of the fuzzer --------------------------------------------------------------------

std::optional<Sizes> product_sizes(const Tensor& a, const Tensor& b) {
  Sizes x = sizes(a), y = sizes(b);
  if (x.empty() || y.empty()) return std::nullopt;
  const bool row = x.size() == 1, column = y.size() == 1;
  if (row) x.insert(x.begin(), 1);
  if (column) y.push_back(1);
  if (x.back() != y[y.size() - 2]) return std::nullopt;
  const Wide m = x[x.size() - 2], n = y.back();
  x.resize(x.size() - 2);
  y.resize(y.size() - 2);
  auto shape = broadcast(x, y);
  if (shape && !row) shape->push_back(m);
  if (shape && !column) shape->push_back(n);
  return shape;
}

Expected product_of_rank(const Tensor& a, int left, const Tensor& b, int right) {
  if (a.dim() != left || b.dim() != right) return refused();
  if (left == 3 && a.shape()[0] != b.shape()[0]) return refused();
  return gives(product_sizes(a, b));
}

AddmmOptions factors(FuzzDraw& d) { return {.beta = d.flag() ? 0 : d.real(), .alpha = d.real()}; }

/** Returns the shape of beta c + alpha product, where c broadcasts to the product. */
Expected added(const Tensor& c, const Expected& result) {
  if (!result) return result;
  const auto whole = broadcast(sizes(c), (*result)[0]);
  return whole && *whole == (*result)[0] ? result : refused();
}

Tensor addend(FuzzDraw& d, Letters& sizes, std::initializer_list<int> letters) {
  const Tensor c = sizes(letters);
  return d.flag() ? c : d.tensor(d.like(c.shape()), c.dtype());
}

// ---- lines of the smoke test --------------------------------------------------------------------

const std::vector<DType> kAll{f32, f16, bf16, f64}, kShort{f32, f16, bf16};

double flops_of(double m, double n, double k) { return 2 * m * n * k; }

/** A line on `count` square matrices, and on `vectors` vectors of the same size behind them. */
Smoke smoke_square(const std::string& name, std::vector<DType> dtypes, int count, int vectors,
                   double matmul_rows, std::int64_t check = 256) {
  return {.name = name,
          .dtypes = std::move(dtypes),
          .operands =
              [=](const Maker& make, DType dtype) {
                const std::int64_t n = make.pick(32, check, 4096);
                Tensors x;
                for (int i = 0; i < count; ++i) x.push_back(make.normal({n, n}, dtype));
                for (int i = 0; i < vectors; ++i) x.push_back(make.normal({n}, dtype));
                return x;
              },
          .passes = 3,
          .by_library = true,
          .flops =
              [=](const Tensors& x) {
                const double n = static_cast<double>(x[0].size(0));
                return matmul_rows * flops_of(n, n, n);
              }};
}

Smoke with_passes(Smoke line, double passes) {
  line.passes = passes;
  return line;
}

Smoke of_gradients(Smoke line) {
  line.backward = true;
  return line;
}

/** `a` and `b`: whether the operand is the transpose of the stored matrix. */
Smoke smoke_layout(const std::string& name, DType dtype) {
  Smoke line = smoke_square(name, {dtype}, 2, 0, 1);
  line.operands = [](const Maker& make, DType type) {
    const std::int64_t n = make.pick(40, 256, type == f64 ? 2048 : 4096);
    return Tensors{make.normal({n, n}, type), make.normal({n, n}, type)};
  };
  return line;
}

/** Two layers; the activation and its gradient are fused into the products. Integers keep the
 *  arguments of relu exact, so that rounding does not change their signs. */
Smoke smoke_layers(MlpActivation activation, bool backward) {
  const bool whole = activation == MlpActivation::relu;
  const char* pass = !backward ? " % forward"
                     : whole   ? " % backward (gate, sums)"
                               : " % backward (gelu', sums)";
  Smoke line = smoke_square(std::string(whole ? "mlp relu" : "mlp gelu") + pass, kShort, 3, 2,
                            backward ? 4 : 2);
  line.operands = [=](const Maker& make, DType dtype) {
    const std::int64_t n = make.pick(32, 128, 4096);
    const auto drawn = [&](const Shape& shape) {
      return whole ? make.whole(shape, dtype) : make.normal(shape, dtype) * 0.1;
    };
    Tensors x{drawn({n, n})};
    for (int layer = 0; layer < 2; ++layer) {
      x.push_back(drawn({n, n}));
      x.push_back(drawn({n}));
    }
    return x;
  };
  line.passes = 5;
  line.factor = 4;  // two consecutive products
  line.backward = backward;
  return line;
}

/** f32 products on Tensor Cores, which round factors to 10 mantissa bits. */
struct AllowedTf32 {
  AllowedTf32() { set_allow_tf32(true); }
  ~AllowedTf32() { set_allow_tf32(false); }
  AllowedTf32(const AllowedTf32&) = delete;
  AllowedTf32& operator=(const AllowedTf32&) = delete;
};

// ---- rows ---------------------------------------------------------------------------------------

const Rows matmul_rows("linear", [] {
  row("matmul", CALL(matmul(x[0], x[1])))
      .test({.oracle = product_oracle,
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
                        {{1, 1}, {1, 1}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = d.flag() ? s({0, 1, 2}) : s({1, 2}), b = d.flag()   ? s({0, 2, 3})
                                                                  : d.flag() ? s({2, 3})
                                                                             : s({2});
        return Trial{call({a, b}), gives(product_sizes(a, b))};
      })
      .golden({"", "torch.matmul", "real(3, 4), real(4, 5)"})
      .golden({"vectors", "torch.matmul", "real(4), real(4)"})
      .golden({"matrix, vector", "torch.matmul", "real(3, 4), real(4)"})
      .golden({"vector, matrix", "torch.matmul", "real(3), real(3, 2)"})
      .golden({"batches", "torch.matmul", "real(2, 1, 3, 4), real(5, 4, 2)"})
      .golden({"inner 0", "torch.matmul", "real(3, 0), real(0, 2)"})
      .golden({"batch, vector", "torch.matmul", "real(2, 3, 4), real(4)"})
      .smoke({.name = "product % batched",
              .dtypes = kAll,
              .operands =
                  [](const Maker& make, DType dtype) {
                    const std::int64_t batch = make.pick(3, 8, 64), n = make.pick(24, 96, 1024);
                    return Tensors{make.normal({batch, n, n}, dtype),
                                   make.normal({batch, n, n}, dtype)};
                  },
              .passes = 3,
              .by_library = true,
              .flops =
                  [](const Tensors& x) {
                    const double n = static_cast<double>(x[0].size(2));
                    return static_cast<double>(x[0].size(0)) * flops_of(n, n, n);
                  }});
  for (const DType dtype : kAll)
    for (const bool a : {false, true})
      for (const bool b : {false, true})
        row("matmul",
            [=](const Tensors& x) {
              return Tensors{matmul(a ? x[0].t() : x[0], b ? x[1].t() : x[1])};
            })
            .smoke(
                smoke_layout(std::string("product % ") + (a ? "T" : "N") + (b ? "T" : "N"), dtype));
  Smoke tf32 = smoke_layout("product % by TF32", f32);
  tf32.factor = 0x1p-9 / smoke::tolerance(f32);
  row("matmul", [](const Tensors& x) {
    const AllowedTf32 scope;
    return Tensors{matmul(x[0], x[1])};
  }).smoke(tf32);
  row("mm", CALL(mm(x[0], x[1])))
      .test({.oracle = product_oracle,
             .operands = {{}, {}},
             .shapes = {{{3, 4}, {4, 5}}, {{1, 7}, {7, 1}}, {{2, 0}, {0, 3}}, {{17, 3}, {3, 2}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({1, 2}), b = s({2, 3});
        return Trial{call({a, b}), product_of_rank(a, 2, b, 2)};
      })
      .golden({"", "torch.mm", "real(3, 4), real(4, 5)"});
  row("bmm", CALL(bmm(x[0], x[1])))
      .test({.oracle = product_oracle,
             .operands = {{}, {}},
             .shapes = {{{2, 3, 4}, {2, 4, 2}}, {{1, 1, 3}, {1, 3, 1}}, {{0, 2, 3}, {0, 3, 2}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({0, 1, 2}), b = s({0, 2, 3});
        return Trial{call({a, b}), product_of_rank(a, 3, b, 3)};
      })
      .golden({"", "torch.bmm", "real(2, 3, 4), real(2, 4, 5)"});
  row("mv", CALL(mv(x[0], x[1])))
      .test({.oracle = product_oracle,
             .operands = {{}, {}},
             .shapes = {{{3, 4}, {4}}, {{1, 1}, {1}}, {{2, 0}, {0}}, {{0, 2}, {2}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({1, 2}), b = s({2});
        return Trial{call({a, b}), product_of_rank(a, 2, b, 1)};
      })
      .golden({"", "torch.mv", "real(3, 4), real(4)"});
  row("dot", CALL(dot(x[0], x[1])))
      .test({.oracle = inner_product,
             .operands = {{}, {}},
             .shapes = {{{5}, {5}}, {{1}, {1}}, {{0}, {0}}, {{37}, {37}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({2}), b = s({2});
        return Trial{call({a, b}), product_of_rank(a, 1, b, 1)};
      })
      .golden({"", "torch.dot", "real(7), real(7)"});
  row("dot", CALL(dot(x[0], x[1])))
      .smoke({.name = "dot",
              .dtypes = {f32},
              .operands =
                  [](const Maker& make, DType dtype) {
                    const Shape shape{make.pick(3000, 1 << 18, 1 << 26)};
                    return Tensors{square(make.normal(shape, dtype)),
                                   square(make.normal(shape, dtype))};
                  },
              .passes = 2});
  row("vecdot", CALL(vecdot(x[0], x[1])))
      .test({.oracle = inner_product,
             .operands = {{}, {}},
             .shapes = {{{5}, {5}},
                        {{3, 4}, {3, 4}},
                        {{2, 1, 4}, {3, 4}},
                        {{2, 3}, {3}},
                        {{2, 0}, {2, 0}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({0, 1, 2}), b = d.flag() ? s({0, 1, 2}) : s({2});
        const bool fits = a.dim() > 0 && b.dim() > 0 && a.size(-1) == b.size(-1);
        auto shape = broadcast(sizes(a), sizes(b));
        if (shape && fits) shape->pop_back();
        return Trial{call({a, b}), fits ? gives(shape) : refused()};
      })
      .golden({"", "torch.linalg.vecdot(x0, x1)", "real(3, 4), real(3, 4)"});
  row("mul", CALL(outer(x[0], x[1]))).golden({"outer", "torch.outer", "real(3), real(4)"});
});

const Rows linear_rows("linear", [] {
  row("linear", CALL(linear(x[0], x[1], optional(x, 2))))
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{
                       plus(matrix_product(x[0], transposed_array(x[1])), x[2], 1)};
                 },
             .operands = {{}, {}, {}},
             .shapes = {{{3, 4}, {5, 4}, {5}},
                        {{4}, {5, 4}, {5}},
                        {{2, 3, 4}, {5, 4}, {5}},
                        {{2, 3}, {1, 3}, {1}},
                        {{2, 3}, {4, 3}, {2, 4}},
                        {{2, 3}, {4, 3}, {2, 1}},
                        {{0, 3}, {4, 3}, {4}},
                        {{2, 0}, {4, 0}, {4}}}})
      .test({.variant = "no bias",
             .oracle =
                 [](const std::vector<Array>& x) {
                   return std::vector<Array>{matrix_product(x[0], transposed_array(x[1]))};
                 },
             .operands = {{}, {}},
             .shapes = {{{3, 4}, {5, 4}}, {{2, 2, 3}, {4, 3}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor x = d.flag() ? s({0, 1, 2}) : s({2}), w = s({3, 2});
        const Tensor b = d.optional({s.n[3]}, s.dtype);
        Sizes shape = sizes(x);
        const bool fits = x.dim() > 0 && w.dim() == 2 && shape.back() == w.shape()[1];
        if (fits) shape.back() = w.shape()[0];
        return Trial{call({x, w, b}), fits ? gives(shape) : refused()};
      })
      .golden({"", "F.linear", "real(2, 3, 4), real(5, 4), real(5)"})
      .golden({"without bias", "F.linear", "real(4), real(5, 4)"})
      .smoke(smoke_square("linear, bias", kAll, 2, 1, 1))
      .smoke(of_gradients(smoke_square("linear, bias % backward", kShort, 2, 1, 2)));
  // Products without rows, columns or terms, with a bias, and their gradients.
  row("linear",
      [](const Tensors& x) {
        const Tensor none = sum(linear(x[3], x[4]));  // no rows
        return Tensors{linear(x[0], x[1], x[2]) + none};
      })
      .smoke({.name = "empty products % backward",
              .dtypes = kAll,
              .operands =
                  [](const Maker& make, DType dtype) {
                    return Tensors{make.normal({4, 0}, dtype), make.normal({5, 0}, dtype),
                                   make.normal({5}, dtype), make.normal({0, 8}, dtype),
                                   make.normal({3, 8}, dtype)};
                  },
              .passes = 3,
              .backward = true,
              .by_library = true});
  auto layers =
      row("mlp", CALL(chain(x, biased, o), bool biased, const MlpOptions& o))
          .test({.oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
                   return {chain_of(x, true, relu_of, unchanged)};
                 },
                 .operands = {{}, {}, {}, {}, {}, {}, {}},
                 .shapes = {{{3, 4}, {5, 4}, {5}, {6, 5}, {6}, {2, 6}, {2}},
                            {{4}, {5, 4}, {5}, {3, 5}, {3}, {2, 3}, {2}},
                            {{2, 2, 3}, {4, 3}, {4}, {130, 4}, {130}, {3, 130}, {3}},
                            {{0, 4}, {5, 4}, {5}, {3, 5}, {3}, {2, 3}, {2}},
                            {{2, 0}, {3, 0}, {3}, {2, 3}, {2}, {1, 2}, {1}}},
                 .factor = 8},
                true, {})
          .test({.variant = "relu after the last",
                 .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
                   return {chain_of(x, false, relu_of, relu_of)};
                 },
                 .operands = {{}, {}, {}},
                 .shapes = {{{3, 4}, {5, 4}, {2, 5}}, {{2, 3, 4}, {5, 4}, {3, 5}}},
                 .factor = 8},
                false, {.activates_last = true})
          .test({.variant = "sigmoid",
                 .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
                   return {chain_of(x, true, sigmoid_of, sigmoid_of)};
                 },
                 .operands = {{}, {}, {}, {}, {}},
                 .shapes = {{{3, 4}, {5, 4}, {5}, {2, 5}, {2}}},
                 .factor = 8},
                true, {.activation = MlpActivation::sigmoid, .activates_last = true})
          .test({.variant = "gelu",
                 .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
                   return {chain_of(x, true, gelu_of, unchanged)};
                 },
                 .operands = {{}, {}, {}, {}, {}, {}, {}},
                 .shapes = {{{3, 4}, {5, 4}, {5}, {6, 5}, {6}, {2, 6}, {2}},
                            {{0, 4}, {5, 4}, {5}, {3, 5}, {3}, {2, 3}, {2}}},
                 .factor = 8},
                true, {.activation = MlpActivation::gelu})
          .test({.variant = "gelu_tanh",
                 .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
                   return {chain_of(x, true, gelu_tanh_of, gelu_tanh_of)};
                 },
                 .operands = {{}, {}, {}, {}, {}, {}, {}},
                 .shapes = {{{3, 4}, {8, 4}, {8}, {16, 8}, {16}, {2, 16}, {2}},
                            {{4}, {5, 4}, {5}, {3, 5}, {3}, {2, 3}, {2}},
                            {{2, 2, 3}, {4, 3}, {4}, {24, 4}, {24}, {3, 24}, {3}}},
                 .factor = 8},
                true, {.activation = MlpActivation::gelu_tanh, .activates_last = true})
          .test({.variant = "one layer",
                 .oracle = [](const std::vector<Array>& x) -> std::vector<Array> {
                   return {chain_of(x, true, unchanged, unchanged)};
                 },
                 .operands = {{}, {}, {}},
                 .shapes = {{{3, 4}, {5, 4}, {5}}, {{3, 4}, {5, 4}, {1}}}},
                true, {.activation = MlpActivation::none})
          .fuzz([](FuzzDraw& d, const auto& call) {
            Letters s(d);
            const Tensor x = s({0, 2}), w = s({3, 2}), v = s({1, 3});
            const bool biased = d.flag();
            const Tensor b = biased ? s({3}) : Tensor{}, c = biased ? s({1}) : Tensor{};
            Sizes shape = sizes(x);
            const bool fits = x.dim() > 0 && w.dim() == 2 && v.dim() == 2 &&
                              shape.back() == w.shape()[1] && w.shape()[0] == v.shape()[1];
            if (fits) shape.back() = v.shape()[0];
            return Trial{call(biased ? Tensors{x, w, b, v, c} : Tensors{x, w, v}, biased, {}),
                         fits ? gives(shape) : refused()};
          })
          .golden({"",
                   "lambda x, *p: F.linear(F.relu(F.linear(F.relu(F.linear(x, *p[:2])), *p[2:4])), "
                   "*p[4:])",
                   "real(4, 5), real(7, 5), real(7), real(6, 7), real(6), real(3, 6), real(3)"},
                  true, {})
          .golden({"gelu", "F.linear(F.gelu(F.linear(x0, x1, x2), approximate='none'), x3, x4)",
                   "real(4, 5), real(8, 5), real(8), real(3, 8), real(3)"},
                  true, {.activation = MlpActivation::gelu})
          .golden(
              {"gelu_tanh", "F.linear(F.gelu(F.linear(x0, x1, x2), approximate='tanh'), x3, x4)",
               "real(4, 5), real(8, 5), real(8), real(3, 8), real(3)"},
              true, {.activation = MlpActivation::gelu_tanh})
          .golden({"sigmoid", "F.linear(x0, x1).sigmoid().matmul(x2.t()).sigmoid()",
                   "real(4, 5), real(7, 5), real(3, 7)"},
                  false, {.activation = MlpActivation::sigmoid, .activates_last = true});
  for (const MlpActivation activation : {MlpActivation::relu, MlpActivation::gelu_tanh})
    for (const bool backward : {false, true})
      layers.smoke(smoke_layers(activation, backward), true, {.activation = activation});
  // Gradients through relu whose arguments are 0: rows of zeros with a bias of 0, as of padding.
  Smoke zeros_line = smoke_layers(MlpActivation::relu, true);
  zeros_line.name = "mlp relu zeros % backward";
  zeros_line.operands = [](const Maker& make, DType dtype) {
    const std::int64_t n = make.pick(32, 128, 4096);
    const Tensor x = make.whole({n, n}, dtype);
    x.slice(0, 0, n / 2).fill_(0);
    return Tensors{x, make.whole({n, n}, dtype), make.fill({n}, 0, dtype),
                   make.whole({n, n}, dtype), make.whole({n}, dtype)};
  };
  layers.smoke(zeros_line, true, {});
});

/** Starts the row of beta c + alpha product, with its golden cases. */
#define ADDED(op, shapes)                                                           \
  row(#op, CALL(op(x[0], x[1], x[2], o), const AddmmOptions& o))                    \
      .in_place(CALL(op##_(x[0], x[1], x[2], o), const AddmmOptions& o))            \
      .golden({"", "torch." #op, shapes})                                           \
      .golden({"factors", "torch." #op "(x0, x1, x2, beta=0.5, alpha=-2)", shapes}, \
              {.beta = 0.5, .alpha = -2})                                           \
      .golden_in_place({"in place", "torch.Tensor." #op "_(x0 * 1, x1, x2)", shapes})

const Rows added_product_rows("linear", [] {
  ADDED(addmm, "real(3, 5), real(3, 4), real(4, 5)")
      .test({.oracle = added_product,
             .operands = {{}, {}, {}},
             .shapes = {{{3, 5}, {3, 4}, {4, 5}},
                        {{5}, {3, 4}, {4, 5}},
                        {{3, 1}, {3, 4}, {4, 5}},
                        {Shape{}, {2, 3}, {3, 2}},
                        {{2, 2}, {2, 0}, {0, 2}}}},
            {.beta = 2, .alpha = 0.5})
      .test({.variant = "in place",
             .call = CALL(addmm_(x[0].clone(), x[1], x[2], {.beta = 2, .alpha = 0.5})),
             .oracle = added_product,
             .operands = {{}, {}, {}},
             .shapes = {{{3, 5}, {3, 4}, {4, 5}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({1, 2}), b = s({2, 3}), c = addend(d, s, {1, 3});
        const AddmmOptions o = factors(d);
        return Trial{call({c, a, b}, o), added(c, product_of_rank(a, 2, b, 2))};
      })
      .golden({"broadcast", "torch.addmm", "real(5), real(3, 4), real(4, 5)"})
      .smoke(with_passes(smoke_square("addmm", kAll, 3, 0, 1), 4), {.beta = 0.5, .alpha = 2});
  ADDED(addmv, "real(3), real(3, 4), real(4)")
      .test({.oracle = added_product,
             .operands = {{}, {}, {}},
             .shapes = {{{3}, {3, 4}, {4}}, {{1}, {3, 4}, {4}}, {Shape{}, {2, 3}, {3}}}},
            {.beta = 2, .alpha = 0.5})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({1, 2}), b = s({2}), c = addend(d, s, {1});
        const AddmmOptions o = factors(d);
        return Trial{call({c, a, b}, o), added(c, product_of_rank(a, 2, b, 1))};
      });
  ADDED(addr, "real(3, 4), real(3), real(4)")
      .test({.oracle =
                 [](const std::vector<Array>& x) {
                   Array u = x[1], v = x[2];
                   u.shape.push_back(1);
                   v.shape.insert(0, 1);
                   return std::vector<Array>{plus(matrix_product(u, v, 0.5), x[0], 2)};
                 },
             .operands = {{}, {}, {}},
             .shapes =
                 {{{3, 4}, {3}, {4}}, {{4}, {3}, {4}}, {Shape{}, {1}, {1}}, {{0, 2}, {0}, {2}}}},
            {.beta = 2, .alpha = 0.5})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({1}), b = s({3}), c = addend(d, s, {1, 3});
        const AddmmOptions o = factors(d);
        const bool fits = a.dim() == 1 && b.dim() == 1;
        return Trial{call({c, a, b}, o),
                     fits ? added(c, gives({a.shape()[0], b.shape()[0]})) : refused()};
      });
  ADDED(addbmm, "real(3, 5), real(2, 3, 4), real(2, 4, 5)")
      .test({.oracle =
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
                        {{2, 2}, {0, 2, 3}, {0, 3, 2}}}},
            {.beta = 2, .alpha = 0.5})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({0, 1, 2}), b = s({0, 2, 3}), c = addend(d, s, {1, 3});
        const AddmmOptions o = factors(d);
        Expected sum = product_of_rank(a, 3, b, 3);
        if (sum) (*sum)[0].erase((*sum)[0].begin());
        return Trial{call({c, a, b}, o), added(c, sum)};
      });
  ADDED(baddbmm, "real(2, 3, 5), real(2, 3, 4), real(2, 4, 5)")
      .test({.oracle = added_product,
             .operands = {{}, {}, {}},
             .shapes = {{{2, 3, 2}, {2, 3, 4}, {2, 4, 2}},
                        {{2}, {2, 3, 4}, {2, 4, 2}},
                        {{3, 1}, {2, 3, 1}, {2, 1, 2}}}},
            {.beta = 2, .alpha = 0.5})
      .fuzz([](FuzzDraw& d, const auto& call) {
        Letters s(d);
        const Tensor a = s({0, 1, 2}), b = s({0, 2, 3}), c = addend(d, s, {0, 1, 3});
        const AddmmOptions o = factors(d);
        return Trial{call({c, a, b}, o), added(c, product_of_rank(a, 3, b, 3))};
      });
});

}  // namespace
