// Cases of the ops in tensor/ops/elementwise/compare.h.
#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

const Registrar additions([] {
  add_case({.op = "bitwise_and",
            .call = CALL(bitwise_and(x[0], x[1])),
            .oracle = elementwise([](double a, double b) {
              return static_cast<double>(static_cast<int>(a) & static_cast<int>(b));
            }),
            .operands = {{.low = 0, .high = 7, .integers = true},
                         {.low = 0, .high = 7, .integers = true}},
            .gradients = false});
  add_case({.op = "bitwise_or",
            .call = CALL(bitwise_or(x[0], x[1])),
            .oracle = elementwise([](double a, double b) {
              return static_cast<double>(static_cast<int>(a) | static_cast<int>(b));
            }),
            .operands = {{.low = 0, .high = 7, .integers = true},
                         {.low = 0, .high = 7, .integers = true}},
            .gradients = false});
  add_case({.op = "bitwise_xor",
            .call = CALL(bitwise_xor(x[0], x[1])),
            .oracle = elementwise([](double a, double b) {
              return static_cast<double>(static_cast<int>(a) ^ static_cast<int>(b));
            }),
            .operands = {{.low = 0, .high = 7, .integers = true},
                         {.low = 0, .high = 7, .integers = true}},
            .gradients = false});
  add_case({.op = "bitwise_not",
            .call = CALL(bitwise_not(x[0])),
            .oracle = elementwise([](double a) { return -a - 1; }),
            .operands = {{.low = 0, .high = 7, .integers = true}},
            .gradients = false});
  add_case({.op = "eq",
            .call = CALL(eq(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a == b ? 1.0 : 0.0; }),
            .operands = {{.low = 0, .high = 2, .integers = true},
                         {.low = 0, .high = 2, .integers = true}},
            .gradients = false});
  add_case({.op = "ge",
            .call = CALL(ge(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a >= b ? 1.0 : 0.0; }),
            .operands = {{.low = 0, .high = 2, .integers = true}, {}},
            .gradients = false});
  add_case({.op = "gt",
            .call = CALL(gt(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a > b ? 1.0 : 0.0; }),
            .operands = {{.low = 0, .high = 2, .integers = true}, {}},
            .gradients = false});
  add_case({.op = "le",
            .call = CALL(le(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a <= b ? 1.0 : 0.0; }),
            .operands = {{.low = 0, .high = 2, .integers = true}, {}},
            .gradients = false});
  add_case({.op = "lt",
            .call = CALL(lt(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a < b ? 1.0 : 0.0; }),
            .operands = {{.low = 0, .high = 2, .integers = true}, {}},
            .gradients = false});
  add_case({.op = "ne",
            .call = CALL(ne(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a != b ? 1.0 : 0.0; }),
            .operands = {{.low = 0, .high = 2, .integers = true}, {}},
            .gradients = false});
  add_case(
      {.op = "isfinite",
       .call = CALL(isfinite(1 / floor(x[0]))),
       .oracle = elementwise([](double a) { return std::isfinite(1 / std::floor(a)) ? 1.0 : 0.0; }),
       .gradients = false});
  add_case(
      {.op = "isinf",
       .call = CALL(isinf(1 / floor(x[0]))),
       .oracle = elementwise([](double a) { return std::isinf(1 / std::floor(a)) ? 1.0 : 0.0; }),
       .gradients = false});
  add_case(
      {.op = "isnan",
       .call = CALL(isnan(1 / floor(x[0]))),
       .oracle = elementwise([](double a) { return std::isnan(1 / std::floor(a)) ? 1.0 : 0.0; }),
       .gradients = false});
  add_case({.op = "logical_and",
            .call = CALL(logical_and(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }),
            .operands = {{.low = 0, .high = 2, .integers = true},
                         {.low = 0, .high = 2, .integers = true}},
            .gradients = false});
  add_case({.op = "logical_or",
            .call = CALL(logical_or(x[0], x[1])),
            .oracle = elementwise([](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }),
            .operands = {{.low = 0, .high = 2, .integers = true},
                         {.low = 0, .high = 2, .integers = true}},
            .gradients = false});
  add_case(
      {.op = "logical_xor",
       .call = CALL(logical_xor(x[0], x[1])),
       .oracle = elementwise([](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }),
       .operands = {{.low = 0, .high = 2, .integers = true},
                    {.low = 0, .high = 2, .integers = true}},
       .gradients = false});
  add_case({.op = "logical_not",
            .call = CALL(logical_not(x[0])),
            .oracle = elementwise([](double a) { return a == 0 ? 1.0 : 0.0; }),
            .operands = {{.low = 0, .high = 2, .integers = true}},
            .gradients = false});
});

}  // namespace
