// Rows of the ops in tensor/ops/elementwise/activation.h and glu.h.
#include <algorithm>

#include "elementwise.h"

using namespace rows;
using namespace mezzo;

namespace {

const Operand kWideInput{.low = -4, .high = 4}, kKinkAtZero{.low = -4, .high = 4, .kinks = {0}};

std::vector<Array> glu_oracle(const std::vector<Array>& x) {
  const std::int64_t n = x[0].shape.back(), half = n / 2;
  Shape shape = x[0].shape;
  shape[shape.rank() - 1] = half;
  Array y{shape, {}};
  for (std::int64_t i = 0; half > 0 && i < x[0].numel() / 2; ++i) {
    const std::int64_t a = i / half * n + i % half;
    y.values.push_back(x[0][a] / (1 + std::exp(-x[0][a + half])));
  }
  return {y};
}

EluOptions draw_elu(FuzzDraw& d) { return {.alpha = d.real()}; }
ShrinkOptions draw_shrink(FuzzDraw& d) { return {.lambda = d.real()}; }

const Rows option_rows("pointwise", [] {
  row("celu", CALL(celu(x[0], o), const EluOptions& o))
      .in_place(CALL(celu_(x[0], o), const EluOptions& o))
      .test({.oracle = elementwise([](double a) { return a > 0 ? a : 0.7 * std::expm1(a / 0.7); }),
             .operands = {kKinkAtZero}},
            {.alpha = 0.7})
      .fuzz(unary, draw_elu)
      .golden({"", "F.celu", "real(3, 4)"})
      .golden({"alpha", "F.celu(x0, 0.5)", "real(3, 4)"}, {.alpha = 0.5});
  row("elu", CALL(elu(x[0], o), const EluOptions& o))
      .in_place(CALL(elu_(x[0], o), const EluOptions& o))
      .test([](double a) { return a > 0 ? a : std::expm1(a); }, kKinkAtZero)
      .test({.variant = "alpha",
             .oracle = elementwise([](double a) { return a > 0 ? a : 0.7 * std::expm1(a); }),
             .operands = {kKinkAtZero}},
            {.alpha = 0.7})
      .fuzz(unary, draw_elu)
      .golden({"", "F.elu", "real(3, 4)"})
      .golden({"alpha", "F.elu(x0, 0.5)", "real(3, 4)"}, {.alpha = 0.5});
  row("gelu", CALL(gelu(x[0], o), const GeluOptions& o))
      .in_place(CALL(gelu_(x[0], o), const GeluOptions& o))
      .test([](double a) { return 0.5 * a * std::erfc(-a * std::sqrt(0.5)); }, kWideInput)
      .test({.variant = "tanh",
             .oracle = elementwise([](double a) {
               return 0.5 * a * (1 + std::tanh(std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
             }),
             .operands = {kWideInput}},
            {.approximate = GeluApproximation::tanh})
      .fuzz(unary,
            [](FuzzDraw& d) {
              return GeluOptions{d.flag() ? GeluApproximation::none : GeluApproximation::tanh};
            })
      .golden({"", "F.gelu", "real(3, 4)"})
      .golden({"tanh", "F.gelu(x0, approximate='tanh')", "real(3, 4)"},
              {.approximate = GeluApproximation::tanh})
      .smoke(smoke_map("gelu", 1, kShortFloats))
      .smoke({.name = "gelu % backward",
              .dtypes = kShortFloats,
              .operands = smoke_map("", 1, {}).operands,
              .passes = 3,
              .backward = true});
  row("hardshrink", CALL(hardshrink(x[0], o), const ShrinkOptions& o))
      .test([](double a) { return std::abs(a) > 0.5 ? a : 0.0; },
            {.low = -4, .high = 4, .kinks = {-0.5, 0.5}})
      .fuzz(unary, draw_shrink)
      .golden({"", "F.hardshrink", "real(3, 4)"})
      .golden({"lambda", "F.hardshrink(x0, 1.0)", "real(3, 4)"}, {.lambda = 1});
  row("hardtanh", CALL(hardtanh(x[0], o), const HardtanhOptions& o))
      .in_place(CALL(hardtanh_(x[0], o), const HardtanhOptions& o))
      .test({.oracle = elementwise([](double a) { return std::clamp(a, -1.0, 2.0); }),
             .operands = {{.low = -4, .high = 4, .kinks = {-1, 2}}}},
            {.max = 2})
      .fuzz(unary, [](FuzzDraw& d) { return HardtanhOptions{.min = d.real(), .max = d.real()}; })
      .golden({"", "F.hardtanh", "real(3, 4)"})
      .golden({"bounds", "F.hardtanh(x0, -0.5, 1.5)", "real(3, 4)"}, {.min = -0.5, .max = 1.5});
  row("leaky_relu", CALL(leaky_relu(x[0], o), const LeakyReluOptions& o))
      .in_place(CALL(leaky_relu_(x[0], o), const LeakyReluOptions& o))
      .test({.oracle = elementwise([](double a) { return a > 0 ? a : 0.2 * a; }),
             .operands = {kKinkAtZero}},
            {.negative_slope = 0.2})
      .fuzz(unary, [](FuzzDraw& d) { return LeakyReluOptions{.negative_slope = d.real()}; })
      .golden({"", "F.leaky_relu", "real(3, 4)"})
      .golden({"slope", "F.leaky_relu(x0, 0.2)", "real(3, 4)"}, {.negative_slope = 0.2});
  row("softplus", CALL(softplus(x[0], o), const SoftplusOptions& o))
      .test([](double a) { return std::log1p(std::exp(a)); }, kWideInput)
      .test({.variant = "beta",
             .oracle = elementwise(
                 [](double a) { return 2 * a > 3 ? a : std::log1p(std::exp(2 * a)) / 2; }),
             .operands = {{.low = -4, .high = 4, .kinks = {1.5}}}},
            {.beta = 2, .threshold = 3})
      .fuzz(unary,
            [](FuzzDraw& d) {
              return SoftplusOptions{.beta = d.real(-2, 20), .threshold = d.real(-2, 20)};
            })
      .golden({"", "F.softplus", "real(3, 4)"})
      .golden({"options", "F.softplus(x0, beta=2, threshold=1)", "real(3, 4)"},
              {.beta = 2, .threshold = 1});
  row("softshrink", CALL(softshrink(x[0], o), const ShrinkOptions& o))
      .test([](double a) { return a > 0.5    ? a - 0.5
                                  : a < -0.5 ? a + 0.5
                                             : 0; },
            {.low = -4, .high = 4, .kinks = {-0.5, 0.5}})
      .fuzz(unary, [](FuzzDraw& d) { return ShrinkOptions{.lambda = d.real(-1, 2)}; })
      .golden({"", "F.softshrink", "real(3, 4)"})
      .golden({"lambda", "F.softshrink(x0, 1.0)", "real(3, 4)"}, {.lambda = 1});
  row("threshold", CALL(threshold(x[0], least, value), double least, double value))
      .test({.oracle = elementwise([](double a) { return a > 0.3 ? a : -1; }),
             .operands = {{.low = -4, .high = 4, .kinks = {0.3}}}},
            0.3, -1)
      .fuzz(unary, real, real)
      .golden({"", "F.threshold(x0, 0.5, -3)", "real(3, 4)"}, 0.5, -3);
  row("glu", CALL(glu(x[0], o), const GluOptions& o))
      .test({.oracle = glu_oracle, .shapes = {{{6}}, {{3, 4}}, {{2, 3, 2}}, {{2, 0}}}})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.tensor();
        const std::int64_t dim = d.dim(x.dim());
        const auto at = resolved(dim, x.shape().size());
        const bool fits = x.dim() > 0 && at && sizes(x)[*at] % 2 == 0;
        return Trial{call({x}, {dim}),
                     fits ? gives(resized(sizes(x), dim, sizes(x)[*at] / 2)) : refused()};
      })
      .golden({"", "F.glu", "real(3, 4)"})
      .golden({"first dimension", "F.glu(x0, 0)", "real(4, 3)"}, {.dim = 0});
});

const Rows plain_rows("pointwise", [] {
  UNARY_BOTH(hardsigmoid)
      .test([](double a) { return std::clamp(a / 6 + 0.5, 0.0, 1.0); },
            {.low = -4, .high = 4, .kinks = {-3, 3}})
      // PyTorch rounds 1/6 to f32 even in f64
      .golden({"", "F.hardsigmoid", "real(3, 4, low=-5, high=5)", 1e4});
  UNARY_BOTH(hardswish)
      .test([](double a) { return a * std::clamp(a / 6 + 0.5, 0.0, 1.0); },
            {.low = -4, .high = 4, .kinks = {-3, 3}})
      .golden({"", "F.hardswish", "real(3, 4, low=-5, high=5)"});
  UNARY_BOTH(logsigmoid)
      .test([](double a) { return std::min(a, 0.0) - std::log1p(std::exp(-std::abs(a))); },
            kWideInput)
      .golden({"", "F.logsigmoid", "real(3, 4, low=-6, high=6)"});
  UNARY_BOTH(mish)
      .test([](double a) { return a * std::tanh(std::log1p(std::exp(a))); }, kWideInput)
      .golden({"", "F.mish", "real(3, 4)"});
  UNARY_BOTH(relu).test([](double a) { return a > 0 ? a : 0; }, kKinkAtZero).golden_between(-2, 2);
  UNARY_BOTH(relu6)
      .test([](double a) { return std::clamp(a, 0.0, 6.0); },
            {.low = -2, .high = 8, .kinks = {0, 6}})
      .golden({"", "F.relu6", "real(3, 4, low=-2, high=9)"});
  UNARY_BOTH(selu)
      .test(
          [](double a) {
            return 1.0507009873554805 * (a > 0 ? a : 1.6732632423543772 * std::expm1(a));
          },
          kKinkAtZero)
      .golden({"", "F.selu", "real(3, 4)"});
  UNARY_BOTH(sigmoid)
      .test([](double a) { return 1 / (1 + std::exp(-a)); }, kWideInput)
      .golden_between(-6, 6)
      .golden(edges("sigmoid"));
  UNARY_BOTH(silu)
      .test([](double a) { return a / (1 + std::exp(-a)); }, kWideInput)
      .golden({"", "F.silu", "real(3, 4)"});
  UNARY_BOTH(softsign)
      .test([](double a) { return a / (1 + std::abs(a)); }, kKinkAtZero)
      .golden({"", "F.softsign", "real(3, 4)"});
  UNARY_BOTH(tanh)
      .test([](double a) { return std::tanh(a); }, kWideInput)
      .golden_between(-3, 3)
      .golden(edges("tanh"))
      .smoke(smoke_map("tanh", 1, kShortFloats));
  UNARY_BOTH(tanhshrink)
      .test([](double a) { return a - std::tanh(a); }, kWideInput)
      .golden({"", "F.tanhshrink", "real(3, 4)"});
});

}  // namespace
