// Rows of the ops in tensor/ops/elementwise/power.h.
#include "elementwise.h"

using namespace rows;
using namespace mezzo;

namespace {

const Operand kPowerBase{.low = 0.3, .high = 3};

/** The case of a constant exponent. */
Case constant_power(const char* variant, double (*f)(double)) {
  return {.variant = variant, .oracle = elementwise(f), .operands = {kPowerBase}};
}

const Rows power_rows("pointwise", [] {
  BINARY_BOTH(pow)
      .test({.oracle = elementwise([](double a, double b) { return std::pow(a, b); }),
             .operands = {kPowerBase, {.low = -2, .high = 2, .kinks = {0}}}})
      .test({.variant = "negative base, integer exponents",
             .oracle = elementwise([](double a, double b) { return std::pow(a, b); }),
             .operands = {{}, {.low = 0, .high = 4, .integers = true}}})
      .golden({"", "torch.pow", "positive(3, 4), real(3, 4)"})
      .golden({"integers", "torch.pow", "whole(6, low=-4, high=4), whole(6, low=0, high=5)"})
      .golden({"edges", "torch.pow",
               "given([0., 0., NAN, -1., -8., INF, 2., -0.]), "
               "given([0., 2., 0., 3., .5, -1., NAN, -1.])"});
  row("pow", CALL(pow(x[0], exponent), double exponent))
      .test(constant_power("number, root", [](double a) { return std::pow(a, 0.5); }), 0.5)
      .test(constant_power("number, general", [](double a) { return std::pow(a, 1.7); }), 1.7)
      .golden({"root", "torch.pow(x0, 0.5)", "positive(3, 4)"}, 0.5)
      .golden({"number", "torch.pow(x0, -1.7)", "positive(3, 4)"}, -1.7);
  row("pow", CALL(pow(x[0], 1.5)))
      .smoke({.name = "pow",
              .dtypes = {f32},
              .operands =
                  [](const Maker& make, DType) {
                    return Tensors{abs(make.normal({make.pick(3000, 1 << 18, 1 << 26)}))};
                  },
              .passes = 2});
  row("pow", CALL(pow(x[0], exponent), std::int64_t exponent))
      .test(constant_power("number, square", [](double a) { return std::pow(a, 2); }), 2)
      .test(constant_power("number, cube", [](double a) { return std::pow(a, 3); }), 3)
      .test(constant_power("number, inverse", [](double a) { return std::pow(a, -1); }), -1)
      .test(constant_power("number, inverse square", [](double a) { return std::pow(a, -2); }), -2)
      .fuzz(unary, [](FuzzDraw& d) { return d.number(-3, 3); })
      .golden({"square", "torch.pow(x0, 2)", "real(3, 4)"}, 2);
  row("pow", CALL(pow(2.5, x[0])))
      .test({.variant = "of a number",
             .oracle = elementwise([](double a) { return std::pow(2.5, a); })})
      .golden({"of a number", "torch.pow(2.5, x0)", "real(3, 4)"});
  row("rdiv", CALL(rdiv(x[0], number), double number))
      .test({.oracle = elementwise([](double a) { return 2.5 / a; }),
             .operands = {{.low = 0.4, .high = 3}}},
            2.5)
      .fuzz(unary, real)
      .golden({"", "3 / x0", "positive(3, 4)"}, 3);
  UNARY_BOTH(reciprocal)
      .test([](double a) { return 1 / a; }, {.low = 0.4, .high = 3})
      .golden_between(.2, 3)
      .golden(edges("reciprocal"));
  UNARY_BOTH(rsqrt)
      .test([](double a) { return 1 / std::sqrt(a); }, {.low = 0.4, .high = 3})
      .golden_between(.2, 3)
      .golden(edges("rsqrt"));
  UNARY_BOTH(sqrt)
      .test([](double a) { return std::sqrt(a); }, {.low = 0.2, .high = 3})
      .golden_between(.2, 3)
      .golden(edges("sqrt"));
  UNARY_BOTH(square).test([](double a) { return a * a; }).golden_between(-2, 2);
});

}  // namespace
