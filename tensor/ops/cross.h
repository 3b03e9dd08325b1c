// cross: the vector product.
// Sees: op.h.
// Read next: cross.cpp (shape rule), ../cpu/cross.cpp (kernel), ../../autograd/rules/cross.cpp (rule).
#pragma once

#include <array>

#include "../elementwise/formula.h"
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

/** Components as strided views: three of each operand, three of the result. A kernel passes over them side by side. */
struct CrossComponents {
  std::array<Tensor, 6> operands;
  std::array<Tensor, 3> results;
};
CrossComponents cross_components(Inputs in, const Tensor& out, std::int64_t dim);

/** One component, from those that follow it in turn. */
template <class C> MZ_HD C cross_component(C a_next, C a_last, C b_next, C b_last) {
  return minus(times(a_next, b_last), times(a_last, b_next));
}

using CrossOps = type_list<Cross>;

}  // namespace mezzo::op
