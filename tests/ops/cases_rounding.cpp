// Cases of the ops in tensor/ops/elementwise/rounding.h.
#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

const Registrar additions([] {
  add_case({.op = "abs",
            .call = CALL(abs(x[0])),
            .oracle = elementwise([](double a) { return std::abs(a); }),
            .operands = {{.kinks = {0}}}});
  add_case({.op = "ceil",
            .call = CALL(ceil(x[0])),
            .oracle = elementwise([](double a) { return std::ceil(a); }),
            .operands = {{.low = -3, .high = 3, .kinks = {-3, -2, -1, 0, 1, 2, 3}}}});
  add_case({.op = "floor",
            .call = CALL(floor(x[0])),
            .oracle = elementwise([](double a) { return std::floor(a); }),
            .operands = {{.low = -3, .high = 3, .kinks = {-3, -2, -1, 0, 1, 2, 3}}}});
  add_case({.op = "frac",
            .call = CALL(frac(x[0])),
            .oracle = elementwise([](double a) { return a - std::trunc(a); }),
            .operands = {{.low = -3, .high = 3, .kinks = {-3, -2, -1, 0, 1, 2, 3}}}});
  add_case({.op = "trunc",
            .call = CALL(trunc(x[0])),
            .oracle = elementwise([](double a) { return std::trunc(a); }),
            .operands = {{.low = -3, .high = 3, .kinks = {-3, -2, -1, 0, 1, 2, 3}}}});
  add_case(
      {.op = "neg", .call = CALL(neg(x[0])), .oracle = elementwise([](double a) { return -a; })});
  add_case({.op = "round",
            .call = CALL(round(x[0])),
            .oracle = elementwise([](double a) { return std::nearbyint(a); }),
            .operands = {{.low = -3, .high = 3, .kinks = {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}}}});
  add_case({.op = "sign",
            .call = CALL(sign(x[0])),
            .oracle = elementwise([](double a) { return a > 0   ? 1.0
                                                        : a < 0 ? -1.0
                                                                : 0.0; }),
            .operands = {{.kinks = {0}}}});
});

}  // namespace
