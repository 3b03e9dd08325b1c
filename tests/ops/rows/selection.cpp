// Rows of the ops in tensor/ops/elementwise/selection.h.
#include <algorithm>

#include "elementwise.h"

using namespace rows;
using namespace mezzo;

namespace {

const char* const kNotNumbers = "given([0.5, NAN, INF, -INF, -2.0], True)";

/** Draws masks where the row has masks[i]; else as draw_operands. */
Tensors draw_masked(FuzzDraw& d, const std::vector<bool>& masks, std::size_t first) {
  Tensors x(masks.size());
  x[first] = d.maybe_huge();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (i != first)
      x[i] = masks[i] ? d.mask(d.like(x[first].shape()))
                      : d.tensor(d.like(x[first].shape()), x[first].dtype());
  return x;
}

const Rows selection_rows("pointwise", [] {
  row("clamp", CALL(clamp(x[0], o), const ClampOptions& o))
      .in_place(CALL(clamp_(x[0], o), const ClampOptions& o))
      .test({.oracle = elementwise([](double a) { return std::clamp(a, -0.5, 1.0); }),
             .operands = {{.kinks = {-0.5, 1}}}},
            {.min = -0.5, .max = 1})
      .test({.variant = "above only",
             .oracle = elementwise([](double a) { return std::min(a, 1.0); }),
             .operands = {{.kinks = {1}}}},
            {.max = 1})
      .fuzz(unary, [](FuzzDraw& d) { return ClampOptions{.min = d.real(), .max = d.real()}; })
      .golden({"", "torch.clamp(x0, -0.5, 1.0)", "real(3, 4)"}, {.min = -0.5, .max = 1})
      .golden({"above", "torch.clamp(x0, max=0.3)", "real(3, 4)"}, {.max = 0.3});
  row("clamp", CALL(clamp(x[0], x[1], x[2])))
      .test({.variant = "tensors",
             .oracle = elementwise(
                 [](double a, double l, double h) { return std::min(std::max(a, l), h); }),
             .operands = {{}, {.low = -1.4, .high = -0.3}, {.low = 0.4, .high = 1.2}},
             .shapes = kTernaryShapes})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensor x = d.maybe_huge(), low = d.optional(d.like(x.shape()), x.dtype()),
                     high = d.optional(d.like(x.shape()), x.dtype());
        auto shape = std::optional<Sizes>(sizes(x));
        for (const Tensor& limit : {low, high})
          if (limit.defined()) shape = broadcast(shape, sizes(limit));
        return Trial{call({x, low, high}), gives(shape)};
      })
      .golden({"tensors", "torch.clamp",
               "real(3, 4), real(4, low=-2, high=0), real(4, low=0, high=2)"});
  row("masked_fill", CALL(masked_fill(x[0], x[1], x[2])))
      .test({.oracle = elementwise([](double a, double m, double v) { return m != 0 ? v : a; }),
             .operands = {{}, {.boolean = true}, {}},
             .shapes = {{{3, 4}, {3, 4}, Shape{}},
                        {{3, 4}, {4}, Shape{}},
                        {{4}, {2, 1}, Shape{}},
                        {{0}, {0}, Shape{}},
                        {Shape{}, Shape{}, Shape{}}}})
      .golden({"tensor", "x0.masked_fill(x1, x2)", "real(3, 4), mask(4), real()"});
  row("masked_fill", CALL(masked_fill(x[0], x[1], value), double value))
      .test({.variant = "number",
             .oracle = elementwise([](double a, double m) { return m != 0 ? 1.5 : a; }),
             .operands = {{}, {.boolean = true}}},
            1.5)
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensors x = draw_masked(d, {false, true}, 0);
        return Trial{call(x, d.real()), broadcast_result(x)};
      })
      .golden({"", "x0.masked_fill(x1, 1.5)", "real(3, 4), mask(3, 4)"}, 1.5);
  row("nan_to_num", CALL(nan_to_num(x[0], o), const NanToNumOptions& o))
      .in_place(CALL(nan_to_num_(x[0], o), const NanToNumOptions& o))
      .test([](double a) { return a; })
      .test({.variant = "of quotients by 0",
             .call = CALL(nan_to_num(x[0] / x[1], {.nan = 0.5, .posinf = 2, .neginf = -3})),
             .oracle = elementwise([](double a, double b) {
               return b != 0 ? a / b : a == 0 ? 0.5 : a > 0 ? 2.0 : -3.0;
             }),
             .operands = {{.low = -1, .high = 1, .integers = true},
                          {.low = 0, .high = 1, .integers = true}},
             .shapes = {{{30}, {30}}},
             .gradients = false,
             .single_op = false})
      .fuzz(unary,
            [](FuzzDraw& d) {
              NanToNumOptions options{.nan = d.real()};
              if (d.flag()) options.posinf = d.real();
              return options;
            })
      .golden({"", "torch.nan_to_num", kNotNumbers})
      .golden({"numbers", "torch.nan_to_num(x0, 1.5, 7, -9)", kNotNumbers},
              {.nan = 1.5, .posinf = 7, .neginf = -9});
  row("where", CALL(where(x[0], x[1], x[2])))
      .test({.oracle = elementwise([](double c, double a, double b) { return c != 0 ? a : b; }),
             .operands = {{.boolean = true}, {}, {}},
             .shapes = kTernaryShapes})
      .fuzz([](FuzzDraw& d, const auto& call) {
        const Tensors x = draw_masked(d, {true, false, false}, 1);
        return Trial{call(x), broadcast_result(x)};
      })
      .golden({"", "torch.where", "mask(3, 1), real(3, 4), real(4)"})
      .smoke(
          {.name = "where",
           .dtypes = kShortFloats,
           .operands =
               [](const Maker& make, DType dtype) {
                 const Shape shape{make.pick(3000, 1 << 18, 1 << 26)};
                 return Tensors{make.normal(shape) > 0, make.normal(shape, dtype),
                                make.normal(shape, dtype)};
               },
           .bytes =
               [](const Tensors& x) { return smoke::size_of(x[0]) + 3 * smoke::size_of(x[1]); }});
  row("where", CALL(where(x[0], x[1], other), double other))
      .test({.variant = "number",
             .oracle = elementwise([](double c, double a) { return c != 0 ? a : 0.5; }),
             .operands = {{.boolean = true}, {}}},
            0.5);
});

}  // namespace
