// cross: the vector product.
// Sees: op.h.
// Read next: ../cpu/cross.cpp (kernel), ../../autograd/rules/cross.cpp (rule).
#pragma once

#include "../op.h"

namespace mezzo::op {

/** a x b along a dimension of size 3 of the result; the other dimensions broadcast. */
struct Cross {
  static constexpr OpTraits traits{.name = "cross",
                                   .precision = Precision::widest,
                                   .summary = "vector product along a dimension of size 3",
                                   .inputs = 2,
                                   .needs = {input(1), input(0)},
                                   .integers = Integers::keep};
  struct Attrs {
    std::int64_t dim = -1;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using CrossOps = type_list<Cross>;

}  // namespace mezzo::op
