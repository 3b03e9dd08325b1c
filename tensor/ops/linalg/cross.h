// cross: the vector product.
#pragma once

#include <array>

#include "../../core/op.h"
#include "../elementwise/formula.h"

namespace mezzo {

/** Options of cross. */
struct CrossOptions {
  std::int64_t dim = -1;  // a dimension of size 3, as counted in the result
};

/** Returns the cross product along a dimension of size 3; the other dimensions broadcast. Integers
 *  stay integers.
 *  Precision: promote.
 *  Gradient: b x g for a, g x a for b.
 *  Errors: ShapeError; IndexError for a bad dimension; DtypeError for bool. */
MZ_API Tensor cross(const Tensor& a, const Tensor& b, const CrossOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** a x b along a dimension of size 3 of the result; the other dimensions broadcast. */
struct Cross {
  static constexpr OpTraits traits{.name = "cross",
                                   .precision = Precision::promote,
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

/** The components as strided views: three of each operand and three of the result. Kernels iterate
 *  over them in parallel. */
struct CrossComponents {
  std::array<Tensor, 6> operands;
  std::array<Tensor, 3> results;
};

/** Returns the strided components of the operands and the result. */
CrossComponents cross_components(Inputs in, const Tensor& out, std::int64_t dim);

/** Returns one component of the product from the two cyclically following ones of a and b. */
template <class C> MZ_HD C cross_component(C a_next, C a_last, C b_next, C b_last) {
  return minus(times(a_next, b_last), times(a_last, b_next));
}

using CrossOps = type_list<Cross>;

}  // namespace mezzo::op
