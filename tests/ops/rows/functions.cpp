// Rows of the ops in tensor/ops/elementwise/functions.h.
#include <algorithm>

#include "elementwise.h"

using namespace rows;
using namespace mezzo;

namespace {

/** Inverts erf by bisection. */
double inverse_erf(double y) {
  double low = -6, high = 6;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (std::erf(middle) < y ? low : high) = middle;
  }
  return (low + high) / 2;
}

const Operand kWide{.low = -4, .high = 4}, kPositive{.low = 0.1, .high = 4};

const Rows function_rows("pointwise", [] {
  UNARY_BOTH(acos)
      .test([](double a) { return std::acos(a); }, {.low = -0.95, .high = 0.95})
      .golden_between(-.9, .9);
  UNARY_BOTH(acosh)  // PyTorch cannot differentiate acosh_, asinh_ and atanh_
      .test([](double a) { return std::acosh(a); }, {.low = 1.1, .high = 4})
      .golden({"", "torch.acosh", "real(3, 4, low=1.1, high=4)"});
  UNARY_BOTH(asin)
      .test([](double a) { return std::asin(a); }, {.low = -0.95, .high = 0.95})
      .golden_between(-.9, .9);
  UNARY_BOTH(asinh)
      .test([](double a) { return std::asinh(a); }, kWide)
      .golden({"", "torch.asinh", "real(3, 4, low=-3, high=3)"})
      .golden(edges("asinh"));
  UNARY_BOTH(atan)
      .test([](double a) { return std::atan(a); }, kWide)
      .golden_between(-3, 3)
      .golden(edges("atan"));
  UNARY_BOTH(atanh)
      .test([](double a) { return std::atanh(a); }, {.low = -0.9, .high = 0.9})
      .golden({"", "torch.atanh", "real(3, 4, low=-.9, high=.9)"});
  UNARY_BOTH(cos).test([](double a) { return std::cos(a); }, kWide).golden_between(-4, 4);
  UNARY_BOTH(cosh).test([](double a) { return std::cosh(a); }).golden_between(-2, 2);
  UNARY_BOTH(erf)
      .test([](double a) { return std::erf(a); })
      .golden_between(-2, 2)
      .golden(edges("erf"))
      .smoke(smoke_map("erf", 1, {f32}));
  UNARY_BOTH(erfc)
      .test([](double a) { return std::erfc(a); }, {.low = -2, .high = 3})
      .golden_between(-2, 2)
      .golden(edges("erfc"));
  UNARY_BOTH(erfinv).test(inverse_erf, {.low = -0.95, .high = 0.95}).golden_between(-.9, .9);
  UNARY_BOTH(exp)
      .test([](double a) { return std::exp(a); })
      .golden_between(-3, 3)
      .golden(edges("exp"))
      .smoke(smoke_map("exp", 1, kShortFloats));
  UNARY_BOTH(exp2)
      .test([](double a) { return std::exp2(a); })
      .golden_between(-3, 3)
      .golden(edges("exp2"));
  UNARY_BOTH(expm1)
      .test([](double a) { return std::expm1(a); })
      .golden_between(-1, 1)
      .golden(edges("expm1"));
  UNARY_BOTH(log)
      .test([](double a) { return std::log(a); }, kPositive)
      .golden_between(.1, 4)
      .golden(edges("log"));
  UNARY_BOTH(log10).test([](double a) { return std::log10(a); }, kPositive).golden_between(.1, 4);
  UNARY_BOTH(log1p)
      .test([](double a) { return std::log1p(a); }, {.low = -0.8, .high = 4})
      .golden_between(-.8, 4)
      .golden(edges("log1p"));
  UNARY_BOTH(log2).test([](double a) { return std::log2(a); }, kPositive).golden_between(.1, 4);
  UNARY_BOTH(logit)
      .test([](double a) { return std::log(a / (1 - a)); }, {.low = 0.05, .high = 0.95})
      .golden_between(.05, .95);
  row("logit", CALL(logit(x[0], eps), double eps))
      .test({.variant = "limited",
             .oracle = elementwise([](double a) {
               return std::log(std::clamp(a, 0.25, 0.75) / (1 - std::clamp(a, 0.25, 0.75)));
             }),
             .operands = {{.low = 0.05, .high = 0.95, .kinks = {0.25, 0.75}}}},
            0.25)
      .fuzz(unary, [](FuzzDraw& d) { return d.real(-1, 1); })
      .golden({"limited", "torch.logit(x0, 0.25)", "real(7, low=.05, high=.95)"}, 0.25);
  UNARY_BOTH(sin).test([](double a) { return std::sin(a); }, kWide).golden_between(-4, 4);
  UNARY_BOTH(sinh).test([](double a) { return std::sinh(a); }).golden_between(-2, 2);
  UNARY_BOTH(tan)
      .test([](double a) { return std::tan(a); }, {.low = -1.2, .high = 1.2})
      .golden_between(-1.2, 1.2);
});

}  // namespace
