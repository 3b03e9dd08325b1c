// prelu: a leaky relu whose slope is learnt, one for all elements or one per channel.
#pragma once

#include "../../core/op.h"

namespace mezzo::op {

/** Operands x and weight, which has 1 element or one per element of x's dimension 1. */
struct Prelu {
  static constexpr OpTraits traits{.name = "prelu",
                                   .precision = Precision::low,
                                   .summary = "x > 0 ? x : w * x with a learnt slope w",
                                   .inputs = 2};
  static std::vector<Tensor> composite(Inputs in, const NoAttrs&);
};

using PreluOps = type_list<Prelu>;

}  // namespace mezzo::op
