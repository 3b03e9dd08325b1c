// Cases of the ops in tensor/ops/elementwise/power.h.
#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

const Registrar additions([] {
  add_case({.op = "pow",
            .call = CALL(pow(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return std::pow(a, b); }),
            .operands = {{.low = 0.3, .high = 3}, {.low = -2, .high = 2, .kinks = {0}}}});
  add_case({.op = "pow",
            .variant = "number, square",
            .call = CALL(pow(x[0], 2)),
            .oracle = elementwise([](double a) { return std::pow(a, 2); }),
            .operands = {{.low = 0.3, .high = 3}}});
  add_case({.op = "pow",
            .variant = "number, cube",
            .call = CALL(pow(x[0], 3)),
            .oracle = elementwise([](double a) { return std::pow(a, 3); }),
            .operands = {{.low = 0.3, .high = 3}}});
  add_case({.op = "pow",
            .variant = "number, inverse",
            .call = CALL(pow(x[0], -1)),
            .oracle = elementwise([](double a) { return std::pow(a, -1); }),
            .operands = {{.low = 0.3, .high = 3}}});
  add_case({.op = "pow",
            .variant = "number, root",
            .call = CALL(pow(x[0], 0.5)),
            .oracle = elementwise([](double a) { return std::pow(a, 0.5); }),
            .operands = {{.low = 0.3, .high = 3}}});
  add_case({.op = "pow",
            .variant = "number, general",
            .call = CALL(pow(x[0], 1.7)),
            .oracle = elementwise([](double a) { return std::pow(a, 1.7); }),
            .operands = {{.low = 0.3, .high = 3}}});
  add_case({.op = "pow",
            .variant = "number, inverse square",
            .call = CALL(pow(x[0], -2)),
            .oracle = elementwise([](double a) { return std::pow(a, -2); }),
            .operands = {{.low = 0.3, .high = 3}}});
  add_case({.op = "pow",
            .variant = "of a number",
            .call = CALL(pow(2.5, x[0])),
            .oracle = elementwise([](double a) { return std::pow(2.5, a); })});
  add_case({.op = "pow",
            .variant = "negative base, integer exponents",
            .call = CALL(pow(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return std::pow(a, b); }),
            .operands = {{}, {.low = 0, .high = 4, .integers = true}}});
  add_case({.op = "rdiv",
            .call = CALL(2.5 / x[0]),
            .oracle = elementwise([](double a) { return 2.5 / a; }),
            .operands = {{.low = 0.4, .high = 3}}});
  add_case({.op = "reciprocal",
            .call = CALL(reciprocal(x[0])),
            .oracle = elementwise([](double a) { return 1 / a; }),
            .operands = {{.low = 0.4, .high = 3}}});
  add_case({.op = "rsqrt",
            .call = CALL(rsqrt(x[0])),
            .oracle = elementwise([](double a) { return 1 / std::sqrt(a); }),
            .operands = {{.low = 0.4, .high = 3}}});
  add_case({.op = "sqrt",
            .call = CALL(sqrt(x[0])),
            .oracle = elementwise([](double a) { return std::sqrt(a); }),
            .operands = {{.low = 0.2, .high = 3}}});
  add_case({.op = "square", .call = CALL(square(x[0])), .oracle = elementwise([](double a) {
                                                          return a * a;
                                                        })});
});

}  // namespace
