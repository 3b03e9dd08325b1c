// Cases of the ops in tensor/ops/elementwise/activation.h.
#include <algorithm>

#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

const Registrar additions([] {
  add_case({.op = "celu",
            .call = CALL(celu(x[0], {.alpha = 0.7})),
            .oracle = elementwise([](double a) { return a > 0 ? a : 0.7 * std::expm1(a / 0.7); }),
            .operands = {{.low = -4, .high = 4, .kinks = {0}}}});
  add_case({.op = "elu",
            .call = CALL(elu(x[0])),
            .oracle = elementwise([](double a) { return a > 0 ? a : std::expm1(a); }),
            .operands = {{.low = -4, .high = 4, .kinks = {0}}}});
  add_case({.op = "elu",
            .variant = "alpha",
            .call = CALL(elu(x[0], {.alpha = 0.7})),
            .oracle = elementwise([](double a) { return a > 0 ? a : 0.7 * std::expm1(a); }),
            .operands = {{.low = -4, .high = 4, .kinks = {0}}}});
  add_case(
      {.op = "gelu",
       .call = CALL(gelu(x[0])),
       .oracle = elementwise([](double a) { return 0.5 * a * std::erfc(-a * std::sqrt(0.5)); }),
       .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "gelu",
            .variant = "tanh",
            .call = CALL(gelu(x[0], {.approximate = GeluApproximation::tanh})),
            .oracle = elementwise([](double a) {
              return 0.5 * a * (1 + std::tanh(std::sqrt(2 / M_PI) * (a + 0.044715 * a * a * a)));
            }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "hardshrink",
            .call = CALL(hardshrink(x[0])),
            .oracle = elementwise([](double a) { return std::abs(a) > 0.5 ? a : 0.0; }),
            .operands = {{.low = -4, .high = 4, .kinks = {-0.5, 0.5}}}});
  add_case({.op = "hardsigmoid",
            .call = CALL(hardsigmoid(x[0])),
            .oracle = elementwise([](double a) { return std::clamp(a / 6 + 0.5, 0.0, 1.0); }),
            .operands = {{.low = -4, .high = 4, .kinks = {-3, 3}}}});
  add_case({.op = "hardswish",
            .call = CALL(hardswish(x[0])),
            .oracle = elementwise([](double a) { return a * std::clamp(a / 6 + 0.5, 0.0, 1.0); }),
            .operands = {{.low = -4, .high = 4, .kinks = {-3, 3}}}});
  add_case({.op = "hardtanh",
            .call = CALL(hardtanh(x[0], {.max = 2})),
            .oracle = elementwise([](double a) { return std::clamp(a, -1.0, 2.0); }),
            .operands = {{.low = -4, .high = 4, .kinks = {-1, 2}}}});
  add_case({.op = "leaky_relu",
            .call = CALL(leaky_relu(x[0], {.negative_slope = 0.2})),
            .oracle = elementwise([](double a) { return a > 0 ? a : 0.2 * a; }),
            .operands = {{.low = -4, .high = 4, .kinks = {0}}}});
  add_case({.op = "logsigmoid",
            .call = CALL(logsigmoid(x[0])),
            .oracle = elementwise(
                [](double a) { return std::min(a, 0.0) - std::log1p(std::exp(-std::abs(a))); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "mish",
            .call = CALL(mish(x[0])),
            .oracle = elementwise([](double a) { return a * std::tanh(std::log1p(std::exp(a))); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "relu",
            .call = CALL(relu(x[0])),
            .oracle = elementwise([](double a) { return a > 0 ? a : 0; }),
            .operands = {{.low = -4, .high = 4, .kinks = {0}}}});
  add_case({.op = "relu6",
            .call = CALL(relu6(x[0])),
            .oracle = elementwise([](double a) { return std::clamp(a, 0.0, 6.0); }),
            .operands = {{.low = -2, .high = 8, .kinks = {0, 6}}}});
  add_case({.op = "selu",
            .call = CALL(selu(x[0])),
            .oracle = elementwise([](double a) {
              return 1.0507009873554805 * (a > 0 ? a : 1.6732632423543772 * std::expm1(a));
            }),
            .operands = {{.low = -4, .high = 4, .kinks = {0}}}});
  add_case({.op = "sigmoid",
            .call = CALL(sigmoid(x[0])),
            .oracle = elementwise([](double a) { return 1 / (1 + std::exp(-a)); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "silu",
            .call = CALL(silu(x[0])),
            .oracle = elementwise([](double a) { return a / (1 + std::exp(-a)); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "softplus",
            .call = CALL(softplus(x[0])),
            .oracle = elementwise([](double a) { return std::log1p(std::exp(a)); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "softplus",
            .variant = "beta",
            .call = CALL(softplus(x[0], {.beta = 2, .threshold = 3})),
            .oracle = elementwise(
                [](double a) { return 2 * a > 3 ? a : std::log1p(std::exp(2 * a)) / 2; }),
            .operands = {{.low = -4, .high = 4, .kinks = {1.5}}}});
  add_case({.op = "softshrink",
            .call = CALL(softshrink(x[0])),
            .oracle = elementwise([](double a) {
              return a > 0.5 ? a - 0.5 : a < -0.5 ? a + 0.5 : 0;
            }),
            .operands = {{.low = -4, .high = 4, .kinks = {-0.5, 0.5}}}});
  add_case({.op = "softsign",
            .call = CALL(softsign(x[0])),
            .oracle = elementwise([](double a) { return a / (1 + std::abs(a)); }),
            .operands = {{.low = -4, .high = 4, .kinks = {0}}}});
  add_case({.op = "tanh",
            .call = CALL(tanh(x[0])),
            .oracle = elementwise([](double a) { return std::tanh(a); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "tanhshrink",
            .call = CALL(tanhshrink(x[0])),
            .oracle = elementwise([](double a) { return a - std::tanh(a); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "threshold",
            .call = CALL(threshold(x[0], 0.3, -1)),
            .oracle = elementwise([](double a) { return a > 0.3 ? a : -1; }),
            .operands = {{.low = -4, .high = 4, .kinks = {0.3}}}});
  add_case({.op = "glu",
            .call = CALL(glu(x[0])),
            .oracle =
                [](const std::vector<Array>& x) {
                  const std::int64_t n = x[0].shape.back(), half = n / 2;
                  Shape shape = x[0].shape;
                  shape[shape.rank() - 1] = half;
                  Array y{shape, {}};
                  for (std::int64_t i = 0; half > 0 && i < x[0].numel() / 2; ++i) {
                    const std::int64_t a = i / half * n + i % half;
                    y.values.push_back(x[0][a] / (1 + std::exp(-x[0][a + half])));
                  }
                  return std::vector<Array>{y};
                },
            .shapes = {{{6}}, {{3, 4}}, {{2, 3, 2}}, {{2, 0}}}});
});

}  // namespace
