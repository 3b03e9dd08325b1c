// Cases of the ops in tensor/ops/elementwise/functions.h.
#include <algorithm>

#include "cases.h"

using namespace cases;
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

const Registrar additions([] {
  add_case({.op = "acos",
            .call = CALL(acos(x[0])),
            .oracle = elementwise([](double a) { return std::acos(a); }),
            .operands = {{.low = -0.95, .high = 0.95}}});
  add_case({.op = "acosh",
            .call = CALL(acosh(x[0])),
            .oracle = elementwise([](double a) { return std::acosh(a); }),
            .operands = {{.low = 1.1, .high = 4}}});
  add_case({.op = "asin",
            .call = CALL(asin(x[0])),
            .oracle = elementwise([](double a) { return std::asin(a); }),
            .operands = {{.low = -0.95, .high = 0.95}}});
  add_case({.op = "asinh",
            .call = CALL(asinh(x[0])),
            .oracle = elementwise([](double a) { return std::asinh(a); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "atan",
            .call = CALL(atan(x[0])),
            .oracle = elementwise([](double a) { return std::atan(a); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "atanh",
            .call = CALL(atanh(x[0])),
            .oracle = elementwise([](double a) { return std::atanh(a); }),
            .operands = {{.low = -0.9, .high = 0.9}}});
  add_case({.op = "cos",
            .call = CALL(cos(x[0])),
            .oracle = elementwise([](double a) { return std::cos(a); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "cosh", .call = CALL(cosh(x[0])), .oracle = elementwise([](double a) {
                                                      return std::cosh(a);
                                                    })});
  add_case({.op = "erf", .call = CALL(erf(x[0])), .oracle = elementwise([](double a) {
                                                    return std::erf(a);
                                                  })});
  add_case({.op = "erfc",
            .call = CALL(erfc(x[0])),
            .oracle = elementwise([](double a) { return std::erfc(a); }),
            .operands = {{.low = -2, .high = 3}}});
  add_case({.op = "erfinv",
            .call = CALL(erfinv(x[0])),
            .oracle = elementwise([](double a) { return inverse_erf(a); }),
            .operands = {{.low = -0.95, .high = 0.95}}});
  add_case({.op = "exp", .call = CALL(exp(x[0])), .oracle = elementwise([](double a) {
                                                    return std::exp(a);
                                                  })});
  add_case({.op = "exp2", .call = CALL(exp2(x[0])), .oracle = elementwise([](double a) {
                                                      return std::exp2(a);
                                                    })});
  add_case({.op = "expm1", .call = CALL(expm1(x[0])), .oracle = elementwise([](double a) {
                                                        return std::expm1(a);
                                                      })});
  add_case({.op = "log",
            .call = CALL(log(x[0])),
            .oracle = elementwise([](double a) { return std::log(a); }),
            .operands = {{.low = 0.1, .high = 4}}});
  add_case({.op = "log10",
            .call = CALL(log10(x[0])),
            .oracle = elementwise([](double a) { return std::log10(a); }),
            .operands = {{.low = 0.1, .high = 4}}});
  add_case({.op = "log1p",
            .call = CALL(log1p(x[0])),
            .oracle = elementwise([](double a) { return std::log1p(a); }),
            .operands = {{.low = -0.8, .high = 4}}});
  add_case({.op = "log2",
            .call = CALL(log2(x[0])),
            .oracle = elementwise([](double a) { return std::log2(a); }),
            .operands = {{.low = 0.1, .high = 4}}});
  add_case({.op = "logit",
            .call = CALL(logit(x[0])),
            .oracle = elementwise([](double a) { return std::log(a / (1 - a)); }),
            .operands = {{.low = 0.05, .high = 0.95}}});
  add_case({.op = "logit",
            .variant = "limited",
            .call = CALL(logit(x[0], 0.25)),
            .oracle = elementwise([](double a) {
              return std::log(std::clamp(a, 0.25, 0.75) / (1 - std::clamp(a, 0.25, 0.75)));
            }),
            .operands = {{.low = 0.05, .high = 0.95, .kinks = {0.25, 0.75}}}});
  add_case({.op = "sin",
            .call = CALL(sin(x[0])),
            .oracle = elementwise([](double a) { return std::sin(a); }),
            .operands = {{.low = -4, .high = 4}}});
  add_case({.op = "sinh", .call = CALL(sinh(x[0])), .oracle = elementwise([](double a) {
                                                      return std::sinh(a);
                                                    })});
  add_case({.op = "tan",
            .call = CALL(tan(x[0])),
            .oracle = elementwise([](double a) { return std::tan(a); }),
            .operands = {{.low = -1.2, .high = 1.2}}});
});

}  // namespace
