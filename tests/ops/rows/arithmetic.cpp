// Rows of the ops in tensor/ops/elementwise/arithmetic.h.
#include <algorithm>

#include "elementwise.h"

using namespace rows;
using namespace mezzo;

namespace {

/** The golden cases of a function of two tensors, beside the first. */
Golden broadcasts(const std::string& op) {
  return {"broadcast", "torch." + op, "real(2, 1, 3), positive(4, 1)"};
}
Golden integer_golden(const std::string& op) {
  return {"integers", "torch." + op, "whole(7, low=-9, high=9), whole(7, low=1, high=5)"};
}
Golden in_place(const std::string& op) {
  return {"in place", "torch.Tensor." + op + "_(x0 * 1, x1)", "real(3, 4), positive(4)"};
}
Golden first_golden(const std::string& op) { return {"", "torch." + op, "real(3, 4), real(3, 4)"}; }

AddOptions draw_alpha(FuzzDraw& d) { return {.alpha = d.flag() ? 1 : d.real()}; }
AddcOptions draw_value(FuzzDraw& d) { return {.value = d.real()}; }
DivOptions draw_rounding(FuzzDraw& d) {
  return {d.flag() ? Rounding::none : d.flag() ? Rounding::trunc : Rounding::floor};
}
std::int64_t draw_number(FuzzDraw& d) { return d.number(-3, 3); }

const Operand kQuotients{.low = -1.9, .high = -1.1}, kDivisors{.low = 0.6, .high = 1};
const Operand kBelow1{.low = 0.1, .high = 0.9}, kAbove1{.low = 1, .high = 3};
const Operand kAboveHalf{.low = 0.5, .high = 3};

const Rows sum_rows("pointwise", [] {
  row("add", CALL(add(x[0], x[1], o), const AddOptions& o))
      .in_place(CALL(add_(x[0], x[1], o), const AddOptions& o))
      .test({.oracle = elementwise([](double a, double b) { return a + 0.5 * b; }),
             .operands = {{}, {}}},
            {.alpha = 0.5})
      .fuzz(binary, draw_alpha)
      .golden(first_golden("add"))
      .golden(broadcasts("add"))
      .golden(integer_golden("add"))
      .golden_in_place(in_place("add"))
      .golden({"alpha", "torch.add(x0, x1, alpha=0.3)", "real(3, 4), real(4)"}, {.alpha = 0.3})
      .smoke(smoke_map("add", 2, kShortFloats))
      .smoke({.name = "add, broadcast",
              .dtypes = kShortFloats,
              .operands =
                  [](const Maker& make, DType dtype) {
                    const std::int64_t n = make.pick(50, 500, 8192);
                    return Tensors{make.normal({n, n}, dtype), make.normal({n}, dtype)};
                  },
              .passes = 2});
  row("add", CALL(x[0] + number, double number))
      .test({.variant = "number", .oracle = elementwise([](double a) { return a + 1.7; })}, 1.7);
  row("rsub", CALL(rsub(x[0], x[1], o), const AddOptions& o))
      .test({.oracle = elementwise([](double a, double b) { return b - 2 * a; }),
             .operands = {{}, {}}},
            {.alpha = 2})
      .fuzz(binary, draw_alpha)
      .golden({"", "torch.rsub", "real(3, 4), real(4)"})
      .golden({"alpha", "torch.rsub(x0, x1, alpha=0.5)", "real(3, 4), real(3, 1)"}, {.alpha = 0.5});
  row("sub", CALL(sub(x[0], x[1], o), const AddOptions& o))
      .in_place(CALL(sub_(x[0], x[1], o), const AddOptions& o))
      .test({.oracle = elementwise([](double a, double b) { return a - 2 * b; }),
             .operands = {{}, {}}},
            {.alpha = 2})
      .fuzz(binary, draw_alpha)
      .golden(first_golden("sub"))
      .golden(broadcasts("sub"))
      .golden(integer_golden("sub"))
      .golden_in_place(in_place("sub"))
      .golden({"alpha", "torch.sub(x0, x1, alpha=-2)", "real(3, 4), real(4)"}, {.alpha = -2});
  row("sub", CALL(number - x[0], double number))
      .test({.variant = "from a number", .oracle = elementwise([](double a) { return 1.7 - a; })},
            1.7);
});

const Rows ternary_rows("pointwise", [] {
  row("addcdiv", CALL(addcdiv(x[0], x[1], x[2], o), const AddcOptions& o))
      .in_place(CALL(addcdiv_(x[0], x[1], x[2], o), const AddcOptions& o))
      .test({.oracle = elementwise([](double x, double a, double b) { return x + 0.5 * a / b; }),
             .operands = {{}, {}, kAboveHalf},
             .shapes = kTernaryShapes},
            {.value = 0.5})
      .fuzz(ternary, draw_value)
      .golden({"", "torch.addcdiv(x0, x1, x2, value=-2)", "real(3, 4), real(4), positive(3, 1)"},
              {.value = -2})
      .golden_in_place(
          {"in place", "(x0 * 1).addcdiv_(x1, x2)", "real(3, 4), real(4), positive(3, 1)"});
  row("addcmul", CALL(addcmul(x[0], x[1], x[2], o), const AddcOptions& o))
      .in_place(CALL(addcmul_(x[0], x[1], x[2], o), const AddcOptions& o))
      .test({.oracle = elementwise([](double x, double a, double b) { return x + 0.5 * a * b; }),
             .operands = {{}, {}, {}},
             .shapes = kTernaryShapes},
            {.value = 0.5})
      .fuzz(ternary, draw_value)
      .golden({"", "torch.addcmul(x0, x1, x2, value=0.5)", "real(3, 4), real(4), real(3, 1)"},
              {.value = 0.5})
      .golden_in_place(
          {"in place", "(x0 * 1).addcmul_(x1, x2)", "real(3, 4), real(4), real(3, 1)"});
  row("lerp", CALL(lerp(x[0], x[1], x[2])))
      .test({.oracle = elementwise([](double a, double b, double w) { return a + w * (b - a); }),
             .operands = {{}, {}, {.low = -0.5, .high = 1.5, .kinks = {0.5}}},
             .shapes = kTernaryShapes})
      .fuzz(ternary)
      .golden({"", "torch.lerp", "real(3, 4), real(3, 4), real(3, 4, low=-.5, high=1.5)"});
  row("lerp", CALL(lerp(x[0], x[1], weight), double weight))
      .test({.variant = "number",
             .oracle = elementwise([](double a, double b) { return a + 0.3 * (b - a); }),
             .operands = {{}, {}}},
            0.3)
      .golden({"number", "torch.lerp(x0, x1, 0.75)", "real(3, 4), real(4)"}, 0.75);
  BINARY_BOTH(mul)
      .test({.oracle = elementwise([](double a, double b) { return a * b; }), .operands = {{}, {}}})
      .golden(first_golden("mul"))
      .golden(broadcasts("mul"))
      .golden(integer_golden("mul"))
      .golden_in_place(in_place("mul"))
      .smoke(smoke_map("mul", 2, kShortFloats));
  row("mul", CALL(mul(x[0], number), std::int64_t number)).fuzz(unary, draw_number);
});

const Rows quotient_rows("pointwise", [] {
  BINARY_BOTH(atan2)
      .test({.oracle = elementwise([](double a, double b) { return std::atan2(a, b); }),
             .operands = {{.low = 0.3, .high = 2}, {}}})
      .golden(first_golden("atan2"))
      .golden(broadcasts("atan2"))
      .golden(integer_golden("atan2"))
      .golden_in_place(in_place("atan2"));
  row("div", CALL(div(x[0], x[1], o), const DivOptions& o))
      .in_place(CALL(div_(x[0], x[1], o), const DivOptions& o))
      .test({.oracle = elementwise([](double a, double b) { return a / b; }),
             .operands = {{}, kAboveHalf}})
      .fuzz(binary, draw_rounding)
      .golden(first_golden("div"))
      .golden(broadcasts("div"))
      .golden(integer_golden("div"))
      .golden({"floor", "torch.div(x0, x1, rounding_mode='floor')", "real(3, 4), positive(3, 4)"},
              {.rounding = Rounding::floor})
      .golden_in_place(in_place("div"));
  row("div", CALL(div(x[0], number, o), std::int64_t number, const DivOptions& o))
      .fuzz(unary, draw_number, draw_rounding);
  row("div", CALL(x[0] / number, double number))
      .test({.variant = "number", .oracle = elementwise([](double a) { return a / 0.3; })}, 0.3);
  BINARY_BOTH(floor_divide)
      .test({.oracle = elementwise([](double a, double b) { return std::floor(a / b); }),
             .operands = {kBelow1, kAbove1}})
      .golden({"", "torch.floor_divide", "constant(3, 4), constant(3, 4, low=.1, high=3)"})
      .golden({"integers", "torch.floor_divide",
               "whole(9, low=-9, high=9), given([2, -2, 3, -3, 4, -4, 5, 1, -1])"})
      .golden({"quotients that round to an integer", "torch.floor_divide",
               "given([1., -1., 1., -5., 5., -5., -0., .6, 7., 0., 2., -1e-30, 1e30]), "
               "given([.1, .1, -.1, INF, INF, -INF, 2., .2, 0., 3., NAN, 1e30, 3.])"});
  row("floor_divide", CALL(floor_divide(x[0], number), std::int64_t number))
      .fuzz(unary, draw_number);
  BINARY_BOTH(fmod)
      .test({.oracle = elementwise([](double a, double b) { return std::fmod(a, b); }),
             .operands = {kQuotients, kDivisors}})
      .golden(first_golden("fmod"))
      .golden(broadcasts("fmod"))
      .golden(integer_golden("fmod"))
      .golden_in_place(in_place("fmod"));
  BINARY_BOTH(remainder)
      .test({.oracle = elementwise([](double a, double b) { return a - b * std::floor(a / b); }),
             .operands = {kQuotients, kDivisors}})
      .golden(first_golden("remainder"))
      .golden(broadcasts("remainder"))
      .golden(integer_golden("remainder"))
      .golden({"quotients that round to an integer", "torch.remainder",
               "given([1., -1., 1., .6, -5.], True), given([.1, .1, -.1, .2, INF], True)"})
      .golden_in_place(in_place("remainder"));
  row("remainder", CALL(remainder(x[0], number), std::int64_t number)).fuzz(unary, draw_number);
  row("trunc_divide", CALL(div(x[0], x[1], {.rounding = Rounding::trunc})))
      .test({.oracle = elementwise([](double a, double b) { return std::trunc(a / b); }),
             .operands = {kBelow1, kAbove1}})
      .fuzz(binary)
      .golden({"", "torch.div(x0, x1, rounding_mode='trunc')", "real(3, 4), positive(3, 4)"});
});

const Rows logaddexp_rows("pointwise", [] {
  BINARY(logaddexp)
      .test({.oracle = elementwise(
                 [](double a, double b) { return std::log(std::exp(a) + std::exp(b)); }),
             .operands = {{}, {}}})
      .golden(first_golden("logaddexp"))
      .golden({"broadcast", "torch.logaddexp", "real(2, 1, 3), real(4, 1, low=-90, high=90)"});
  BINARY(xlogy)
      .test({.oracle = elementwise([](double x, double y) { return x == 0 ? 0 : x * std::log(y); }),
             .operands = {kBelow1, kAbove1}})
      .golden({"", "torch.xlogy", "real(3, 4), positive(3, 4)"})
      .golden({"zeros", "torch.xlogy",
               "given([0., 0., 0., 2., -1., 0., float('nan')]), "
               "given([0., -1., float('inf'), 0., 3., float('nan'), 0.])"})
      .golden({"gradients of 0", "torch.xlogy",
               "given([1., 3., -1., 2.], True), constant(4, low=0, high=0)"});
  BINARY(maximum)
      .test({.oracle = elementwise([](double a, double b) { return std::max(a, b); }),
             .operands = {{.low = -2, .high = 2}, {.low = -2.1, .high = 2.3}}})
      .golden(first_golden("maximum"))
      .golden(broadcasts("maximum"))
      .golden(integer_golden("maximum"));
  BINARY(minimum)
      .test({.oracle = elementwise([](double a, double b) { return std::min(a, b); }),
             .operands = {{.low = -2, .high = 2}, {.low = -2.1, .high = 2.3}}})
      .golden(first_golden("minimum"))
      .golden(broadcasts("minimum"))
      .golden(integer_golden("minimum"));
});

}  // namespace
