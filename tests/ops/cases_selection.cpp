// Cases of the ops in tensor/ops/elementwise/selection.h.
#include <algorithm>

#include "cases.h"

using namespace cases;
using namespace mezzo;

namespace {

const Registrar additions([] {
  add_case({.op = "clamp",
            .call = CALL(clamp(x[0], {.min = -0.5, .max = 1})),
            .oracle = elementwise([](double a) { return std::clamp(a, -0.5, 1.0); }),
            .operands = {{.kinks = {-0.5, 1}}}});
  add_case({.op = "clamp",
            .variant = "above only",
            .call = CALL(clamp(x[0], {.max = 1})),
            .oracle = elementwise([](double a) { return std::min(a, 1.0); }),
            .operands = {{.kinks = {1}}}});
  add_case({.op = "clamp",
            .variant = "tensors",
            .call = CALL(clamp(x[0], x[1], x[2])),
            .oracle = elementwise(
                [](double a, double l, double h) { return std::min(std::max(a, l), h); }),
            .operands = {{}, {.low = -1.4, .high = -0.3}, {.low = 0.4, .high = 1.2}},
            .shapes = {{{3, 4}, {3, 4}, {3, 4}},
                       {{4}, {3, 4}, Shape{}},
                       {{3, 1}, {4}, {3, 4}},
                       {{0}, {0}, {0}},
                       {Shape{}, {5}, {5}}}});
  add_case({.op = "masked_fill",
            .call = CALL(masked_fill(x[0], x[1], x[2])),
            .oracle = elementwise([](double a, double m, double v) { return m != 0 ? v : a; }),
            .operands = {{}, {.boolean = true}, {}},
            .shapes = {{{3, 4}, {3, 4}, Shape{}},
                       {{3, 4}, {4}, Shape{}},
                       {{4}, {2, 1}, Shape{}},
                       {{0}, {0}, Shape{}},
                       {Shape{}, Shape{}, Shape{}}}});
  add_case({.op = "masked_fill",
            .variant = "number",
            .call = CALL(masked_fill(x[0], x[1], 1.5)),
            .oracle = elementwise([](double a, double m) { return m != 0 ? 1.5 : a; }),
            .operands = {{}, {.boolean = true}}});
  add_case({.op = "nan_to_num", .call = CALL(nan_to_num(x[0])), .oracle = elementwise([](double a) {
                                                                  return a;
                                                                })});
  add_case({.op = "nan_to_num",
            .variant = "of quotients by 0",
            .call = CALL(nan_to_num(x[0] / x[1], {.nan = 0.5, .posinf = 2, .neginf = -3})),
            .oracle = elementwise([](double a, double b) {
              return b != 0 ? a / b : a == 0 ? 0.5 : a > 0 ? 2.0 : -3.0;
            }),
            .operands = {{.low = -1, .high = 1, .integers = true},
                         {.low = 0, .high = 1, .integers = true}},
            .shapes = {{{30}, {30}}},
            .gradients = false,
            .single_op = false});
  add_case({.op = "where",
            .call = CALL(where(x[0], x[1], x[2])),
            .oracle = elementwise([](double c, double a, double b) { return c != 0 ? a : b; }),
            .operands = {{.boolean = true}, {}, {}},
            .shapes = {{{3, 4}, {3, 4}, {3, 4}},
                       {{4}, {3, 4}, Shape{}},
                       {{3, 1}, {4}, {3, 4}},
                       {{0}, {0}, {0}},
                       {Shape{}, {5}, {5}}}});
  add_case({.op = "where",
            .variant = "number",
            .call = CALL(where(x[0], x[1], 0.5)),
            .oracle = elementwise([](double c, double a) { return c != 0 ? a : 0.5; }),
            .operands = {{.boolean = true}, {}}});
});

}  // namespace
