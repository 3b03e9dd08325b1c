// Rows: matrix products and cuBLASLt epilogues.
#include "row.h"

namespace smoke {

namespace {

std::string text(DType dtype) { return std::string(name(dtype)); }

double flops_of(std::int64_t m, std::int64_t n, std::int64_t k) {
  return 2 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
}

/** `a` and `b`: whether the operand is the transpose of the stored matrix. */
Row layout_row(DType dtype, bool a, bool b) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t n = make.pick(40, 256, dtype == f64 ? 2048 : 4096);
    return forward_case(
        {make.normal({n, n}, dtype), make.normal({n, n}, dtype)}, 3,
        [=](const Tensors& x) { return matmul(a ? x[0].t() : x[0], b ? x[1].t() : x[1]); },
        flops_of(n, n, n));
  };
  return {"product " + text(dtype) + " " + (a ? "T" : "N") + (b ? "T" : "N"), cases,
          tolerance(dtype), Expected::close, true};
}

Row batched_row(DType dtype) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t batch = make.pick(3, 8, 64), n = make.pick(24, 96, 1024);
    return forward_case(
        {make.normal({batch, n, n}, dtype), make.normal({batch, n, n}, dtype)}, 3,
        [](const Tensors& x) { return matmul(x[0], x[1]); },
        static_cast<double>(batch) * flops_of(n, n, n));
  };
  return {"product " + text(dtype) + " batched", cases, tolerance(dtype), Expected::close, true};
}

Row bias_row(DType dtype, bool backward) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t n = make.pick(32, 256, 4096);
    const auto f = [](const Tensors& x) { return linear(x[0], x[1], x[2]); };
    Tensors operands{make.normal({n, n}, dtype), make.normal({n, n}, dtype),
                     make.normal({n}, dtype)};
    if (!backward) return forward_case(operands, 3, f, flops_of(n, n, n));
    operands.push_back(make.normal({n, n}, dtype));
    return backward_case(operands, 3, f, 2 * flops_of(n, n, n));
  };
  return {"linear, bias " + text(dtype) + (backward ? " backward" : ""), cases, tolerance(dtype),
          Expected::close, true};
}

Row addend_row(DType dtype) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t n = make.pick(32, 256, 4096);
    return forward_case(
        {make.normal({n, n}, dtype), make.normal({n, n}, dtype), make.normal({n, n}, dtype)}, 4,
        [](const Tensors& x) { return addmm(x[0], x[1], x[2], {.beta = 0.5, .alpha = 2}); },
        flops_of(n, n, n));
  };
  return {"addmm " + text(dtype), cases, tolerance(dtype), Expected::close, true};
}

/** Two layers; the activation and its gradient are fused into the products. Integers keep the
 *  arguments of relu exact, so that rounding does not change their signs. */
Row epilogue_row(DType dtype, MlpActivation activation, bool backward) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t n = make.pick(32, 128, 4096);
    const bool whole = activation == MlpActivation::relu;
    const auto matrix = [&] {
      return whole ? make.whole({n, n}, dtype) : make.normal({n, n}, dtype) * 0.1;
    };
    const auto vector = [&] {
      return whole ? make.whole({n}, dtype) : make.normal({n}, dtype) * 0.1;
    };
    const auto f = [=](const Tensors& x) {
      return mlp(x[0], {x[1], x[2]}, {x[3], x[4]}, {.activation = activation});
    };
    Tensors operands{matrix(), matrix(), matrix(), vector(), vector()};
    if (!backward) return forward_case(operands, 5, f, 2 * flops_of(n, n, n));
    operands.push_back(matrix());
    return backward_case(operands, 5, f, 4 * flops_of(n, n, n));
  };
  const std::string function = activation == MlpActivation::relu ? "relu" : "gelu";
  const std::string pass = !backward                           ? " forward"
                           : activation == MlpActivation::relu ? " backward (gate, sums)"
                                                               : " backward (gelu', sums)";
  // Two consecutive products.
  return {"mlp " + function + " " + text(dtype) + pass, cases, 4 * tolerance(dtype),
          Expected::close, true};
}

/** Gradients through relu whose arguments are 0: rows of zeros with a bias of 0, as of padding. */
Row relu_zeros_row(DType dtype) {
  const auto cases = [=](const Maker& make) {
    const std::int64_t n = make.pick(32, 128, 4096);
    Tensor x = make.whole({n, n}, dtype);
    x.slice(0, 0, n / 2).fill_(0);
    return backward_case(
        {x, make.whole({n, n}, dtype), make.whole({n, n}, dtype), make.fill({n}, 0, dtype),
         make.whole({n}, dtype), make.whole({n, n}, dtype)},
        5,
        [](const Tensors& t) {
          return mlp(t[0], {t[1], t[2]}, {t[3], t[4]});
        },
        4 * flops_of(n, n, n));
  };
  return {"mlp relu zeros " + text(dtype) + " backward", cases, 4 * tolerance(dtype),
          Expected::close, true};
}

/** Products without rows, columns or terms, with a bias, and their gradients. */
Row empty_row(DType dtype) {
  const auto cases = [=](const Maker& make) {
    return backward_case(
        {make.normal({4, 0}, dtype), make.normal({5, 0}, dtype), make.normal({5}, dtype),
         make.normal({0, 8}, dtype), make.normal({3, 8}, dtype), make.normal({4, 5}, dtype)},
        3, [](const Tensors& x) {
          const Tensor none = sum(linear(x[3], x[4]));  // no rows
          return linear(x[0], x[1], x[2]) + none;
        });
  };
  return {"empty products " + text(dtype) + " backward", cases, tolerance(dtype), Expected::close,
          true};
}

/** f32 products on Tensor Cores, which round factors to 10 mantissa bits. */
Row tf32_row() {
  struct Allowed {
    explicit Allowed(bool on) { set_allow_tf32(on); }
    ~Allowed() { set_allow_tf32(false); }
    Allowed(const Allowed&) = delete;
    Allowed& operator=(const Allowed&) = delete;
  };
  const auto cases = [](const Maker& make) {
    const std::int64_t n = make.pick(40, 256, 4096);
    return forward_case(
        {make.normal({n, n}), make.normal({n, n})}, 3,
        [](const Tensors& x) {
          const Allowed scope(true);
          return matmul(x[0], x[1]);
        },
        flops_of(n, n, n));
  };
  return {"product f32 by TF32", cases, 0x1p-9, Expected::close, true};
}

}  // namespace

void add_product_rows(std::vector<Row>& rows) {
  for (const DType dtype : {f32, f16, bf16, f64})
    for (const bool a : {false, true})
      for (const bool b : {false, true}) rows.push_back(layout_row(dtype, a, b));
  rows.push_back(tf32_row());
  for (const DType dtype : {f32, f16, bf16, f64}) {
    rows.push_back(batched_row(dtype));
    rows.push_back(bias_row(dtype, false));
    rows.push_back(addend_row(dtype));
  }
  for (const DType dtype : {f32, f16, bf16, f64}) rows.push_back(empty_row(dtype));
  for (const DType dtype : {f32, f16, bf16}) {
    rows.push_back(relu_zeros_row(dtype));
    rows.push_back(bias_row(dtype, true));
    for (const auto activation : {MlpActivation::relu, MlpActivation::gelu_tanh})
      for (const bool backward : {false, true})
        rows.push_back(epilogue_row(dtype, activation, backward));
  }
}

}  // namespace smoke
