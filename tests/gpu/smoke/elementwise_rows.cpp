// Rows: elementwise ops, reductions and random numbers.
#include "row.h"

namespace smoke {

namespace {

std::int64_t elements(const Maker& make) { return make.pick(3000, 1 << 18, 1 << 26); }

template <class F>
void add_map(std::vector<Row>& rows, const std::string& op, DType dtype, int operands, F f) {
  const auto cases = [=](const Maker& make) {
    Tensors x;
    for (int i = 0; i < operands; ++i) x.push_back(make.normal({elements(make)}, dtype));
    return forward_case(x, operands + 1, f);
  };
  rows.push_back({op + " " + std::string(name(dtype)), cases, tolerance(dtype)});
}

/** A reduction of a matrix. */
template <class F>
void add_reduction(std::vector<Row>& rows, const std::string& op, DType dtype, Expected expected,
                   F f) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t count = make.pick(30, 600, 16384), columns = make.pick(50, 500, 4096);
    // Positive numbers, so that sums do not cancel and have a large element to compare with.
    return forward_case({square(make.normal({count, columns}, dtype)) * 0.01}, 1, f);
  };
  rows.push_back({op + " " + std::string(name(dtype)), cases, tolerance(dtype), expected});
}

template <class F>
void add_drawn(std::vector<Row>& rows, const std::string& op, double passes, F f) {
  const auto cases = [=](const Maker& make) {
    return forward_case({make.normal({elements(make)})}, passes, f);
  };
  rows.push_back({op + " f32", cases, 0, Expected::same});
}

}  // namespace

void add_elementwise_rows(std::vector<Row>& rows) {
  for (const DType dtype : {f32, f16, bf16}) {
    add_map(rows, "add", dtype, 2, [](const Tensors& x) { return x[0] + x[1]; });
    add_map(rows, "mul", dtype, 2, [](const Tensors& x) { return x[0] * x[1]; });
    add_map(rows, "gelu", dtype, 1, [](const Tensors& x) { return gelu(x[0]); });
    add_map(rows, "exp", dtype, 1, [](const Tensors& x) { return exp(x[0]); });
    add_map(rows, "tanh", dtype, 1, [](const Tensors& x) { return tanh(x[0]); });
    add_map(rows, "where", dtype, 2, [](const Tensors& x) { return where(x[0] > 0, x[0], x[1]); });
    rows.push_back({"gelu " + std::string(name(dtype)) + " backward",
                    [=](const Maker& make) {
                      const Shape shape{elements(make)};
                      return backward_case({make.normal(shape, dtype), make.normal(shape, dtype)},
                                           3, [](const Tensors& x) { return gelu(x[0]); });
                    },
                    tolerance(dtype)});
    rows.push_back({"add, broadcast " + std::string(name(dtype)),
                    [=](const Maker& make) {
                      const std::int64_t n = make.pick(50, 500, 8192);
                      return forward_case({make.normal({n, n}, dtype), make.normal({n}, dtype)}, 2,
                                          [](const Tensors& x) { return x[0] + x[1]; });
                    },
                    tolerance(dtype)});
    add_reduction(rows, "sum of all", dtype, Expected::close,
                  [](const Tensors& x) { return sum(x[0]); });
    add_reduction(rows, "sum of rows", dtype, Expected::close,
                  [](const Tensors& x) { return sum(x[0], 1); });
    add_reduction(rows, "sum of columns", dtype, Expected::close,
                  [](const Tensors& x) { return sum(x[0], 0); });
    add_reduction(rows, "mean of rows", dtype, Expected::close,
                  [](const Tensors& x) { return mean(x[0], 1); });
    add_reduction(rows, "amax of rows", dtype, Expected::same,
                  [](const Tensors& x) { return amax(x[0], 1); });
    add_reduction(rows, "argmax of rows", dtype, Expected::same,
                  [](const Tensors& x) { return argmax(x[0], {.dim = 1}); });
  }
  add_reduction(rows, "var of rows", f32, Expected::close,
                [](const Tensors& x) { return var(x[0], 1); });
  add_reduction(rows, "norm of all", f32, Expected::close,
                [](const Tensors& x) { return norm(x[0]); });
  add_reduction(rows, "logsumexp of rows", f32, Expected::close,
                [](const Tensors& x) { return logsumexp(x[0], 1); });
  add_map(rows, "dot", f32, 2, [](const Tensors& x) { return dot(square(x[0]), square(x[1])); });
  add_map(rows, "pow", f32, 1, [](const Tensors& x) { return pow(abs(x[0]), 1.5); });
  add_map(rows, "floor", f32, 1, [](const Tensors& x) { return floor(x[0]); });
  add_map(rows, "erf", f32, 1, [](const Tensors& x) { return erf(x[0]); });
  add_drawn(rows, "dropout", 2, [](const Tensors& x) { return dropout(x[0], {.p = 0.3}); });
  add_drawn(rows, "uniform", 1, [](const Tensors& x) { return rand_like(x[0]); });
  add_drawn(rows, "normal", 1, [](const Tensors& x) { return randn_like(x[0]); });
}

}  // namespace smoke
