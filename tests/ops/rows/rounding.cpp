// Rows of the ops in tensor/ops/elementwise/rounding.h.
#include "elementwise.h"

using namespace rows;
using namespace mezzo;

namespace {

const Operand kSteps{.low = -3, .high = 3, .kinks = {-3, -2, -1, 0, 1, 2, 3}};

const Rows rounding_rows("pointwise", [] {
  UNARY_BOTH(abs)
      .test([](double a) { return std::abs(a); }, {.kinks = {0}})
      .golden_between(-2, 2)
      .golden(edges("abs"));
  UNARY_BOTH(ceil)
      .test([](double a) { return std::ceil(a); }, kSteps)
      .golden_between(-3, 3)
      .golden(edges("ceil"));
  UNARY_BOTH(floor)
      .test([](double a) { return std::floor(a); }, kSteps)
      .golden_between(-3, 3)
      .golden(edges("floor"))
      .smoke(smoke_map("floor", 1, {f32}));
  UNARY_BOTH(frac).test([](double a) { return a - std::trunc(a); }, kSteps).golden_between(-3, 3);
  UNARY_BOTH(trunc)
      .test([](double a) { return std::trunc(a); }, kSteps)
      .golden_between(-3, 3)
      .golden(edges("trunc"));
  UNARY_BOTH(neg).test([](double a) { return -a; }).golden_between(-2, 2);
  UNARY_BOTH(round)
      .test([](double a) { return std::nearbyint(a); },
            {.low = -3, .high = 3, .kinks = {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5}})
      .golden_between(-3, 3)
      .golden(edges("round"))
      .golden({"halves", "torch.round", "given([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5])"});
  UNARY_BOTH(sign)
      .test([](double a) { return a > 0   ? 1.0
                                  : a < 0 ? -1.0
                                          : 0.0; }, {.kinks = {0}})
      .golden_between(-2, 2)
      // PyTorch's sign of nan is 0, ours is nan
      .golden({"edges", "torch.sign", "given(EDGES[:6])"});
});

}  // namespace
