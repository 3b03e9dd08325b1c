// prelu: a leaky relu whose slope is learnt, one for all elements or one per channel.
#pragma once

#include "../../core/op.h"

namespace mezzo {

/** Returns x > 0 ? x : weight * x.
 *  Shape: x's. weight has 1 element, or one per channel (dimension 1 of x).
 *  Precision: low.
 *  Gradient: for x, g where x > 0, else weight * g; for weight, g * x summed over x <= 0.
 *  Errors: ShapeError; DtypeError unless both have one floating-point dtype.
 *  Source: He et al., Delving deep into rectifiers (2015). */
MZ_API Tensor prelu(const Tensor& x, const Tensor& weight);

}  // namespace mezzo

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
