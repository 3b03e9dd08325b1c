// Cases of the ops in tensor/ops/elementwise/arithmetic.h.
#include <algorithm>

#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

const Registrar additions([] {
  add_case({.op = "add",
            .call = CALL(add(x[0], x[1], {.alpha = 0.5})),
            .oracle = elementwise([](double a, double b) { return a + 0.5 * b; }),
            .operands = {{}, {}}});
  add_case({.op = "add",
            .variant = "number",
            .call = CALL(x[0] + 1.7),
            .oracle = elementwise([](double a) { return a + 1.7; })});
  add_case({.op = "addcdiv",
            .call = CALL(addcdiv(x[0], x[1], x[2], {.value = 0.5})),
            .oracle = elementwise([](double x, double a, double b) { return x + 0.5 * a / b; }),
            .operands = {{}, {}, {.low = 0.5, .high = 3}},
            .shapes = {{{3, 4}, {3, 4}, {3, 4}},
                       {{4}, {3, 4}, Shape{}},
                       {{3, 1}, {4}, {3, 4}},
                       {{0}, {0}, {0}},
                       {Shape{}, {5}, {5}}}});
  add_case({.op = "addcmul",
            .call = CALL(addcmul(x[0], x[1], x[2], {.value = 0.5})),
            .oracle = elementwise([](double x, double a, double b) { return x + 0.5 * a * b; }),
            .operands = {{}, {}, {}},
            .shapes = {{{3, 4}, {3, 4}, {3, 4}},
                       {{4}, {3, 4}, Shape{}},
                       {{3, 1}, {4}, {3, 4}},
                       {{0}, {0}, {0}},
                       {Shape{}, {5}, {5}}}});
  add_case({.op = "atan2",
            .call = CALL(atan2(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return std::atan2(a, b); }),
            .operands = {{.low = 0.3, .high = 2}, {}}});
  add_case({.op = "div",
            .call = CALL(div(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a / b; }),
            .operands = {{}, {.low = 0.5, .high = 3}}});
  add_case({.op = "div",
            .variant = "number",
            .call = CALL(x[0] / 0.3),
            .oracle = elementwise([](double a) { return a / 0.3; })});
  add_case({.op = "floor_divide",
            .call = CALL(floor_divide(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return std::floor(a / b); }),
            .operands = {{.low = 0.1, .high = 0.9}, {.low = 1, .high = 3}}});
  add_case({.op = "fmod",
            .call = CALL(fmod(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return std::fmod(a, b); }),
            .operands = {{.low = -1.9, .high = -1.1}, {.low = 0.6, .high = 1}}});
  add_case({.op = "lerp",
            .call = CALL(lerp(x[0], x[1], x[2])),
            .oracle = elementwise([](double a, double b, double w) { return a + w * (b - a); }),
            .operands = {{}, {}, {.low = -0.5, .high = 1.5, .kinks = {0.5}}},
            .shapes = {{{3, 4}, {3, 4}, {3, 4}},
                       {{4}, {3, 4}, Shape{}},
                       {{3, 1}, {4}, {3, 4}},
                       {{0}, {0}, {0}},
                       {Shape{}, {5}, {5}}}});
  add_case({.op = "lerp",
            .variant = "number",
            .call = CALL(lerp(x[0], x[1], 0.3)),
            .oracle = elementwise([](double a, double b) { return a + 0.3 * (b - a); }),
            .operands = {{}, {}}});
  add_case({.op = "logaddexp",
            .call = CALL(logaddexp(x[0], x[1])),
            .oracle =
                elementwise([](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }),
            .operands = {{}, {}}});
  add_case({.op = "maximum",
            .call = CALL(maximum(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return std::max(a, b); }),
            .operands = {{.low = -2, .high = 2}, {.low = -2.1, .high = 2.3}}});
  add_case({.op = "minimum",
            .call = CALL(minimum(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return std::min(a, b); }),
            .operands = {{.low = -2, .high = 2}, {.low = -2.1, .high = 2.3}}});
  add_case({.op = "mul",
            .call = CALL(mul(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a * b; }),
            .operands = {{}, {}}});
  add_case({.op = "remainder",
            .call = CALL(remainder(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a - b * std::floor(a / b); }),
            .operands = {{.low = -1.9, .high = -1.1}, {.low = 0.6, .high = 1}}});
  add_case({.op = "rsub",
            .call = CALL(rsub(x[0], x[1], {.alpha = 2})),
            .oracle = elementwise([](double a, double b) { return b - 2 * a; }),
            .operands = {{}, {}}});
  add_case({.op = "sub",
            .call = CALL(sub(x[0], x[1], {.alpha = 2})),
            .oracle = elementwise([](double a, double b) { return a - 2 * b; }),
            .operands = {{}, {}}});
  add_case({.op = "sub",
            .variant = "from a number",
            .call = CALL(1.7 - x[0]),
            .oracle = elementwise([](double a) { return 1.7 - a; })});
  add_case({.op = "trunc_divide",
            .call = CALL(div(x[0], x[1], {.rounding = Rounding::trunc})),
            .oracle = elementwise([](double a, double b) { return std::trunc(a / b); }),
            .operands = {{.low = 0.1, .high = 0.9}, {.low = 1, .high = 3}}});
});

}  // namespace
