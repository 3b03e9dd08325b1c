// renorm: slices of a tensor scaled down to a norm.
// Sees: op.h, statistics.h.
// Read next: ../cpu/renorm.cpp (kernel), ../../autograd/rules/renorm.cpp (rule).
#pragma once

#include "../op.h"
#include "statistics.h"

namespace mezzo::op {

/** Each slice along dim whose p-norm n exceeds maxnorm, times maxnorm / (n + 1e-7). */
struct Renorm {
  static constexpr OpTraits traits{.name = "renorm",
                                   .precision = Precision::full,
                                   .summary = "slices scaled down to a p-norm",
                                   .needs = {input(0)},
                                   .in_place = true};
  struct Attrs {
    double p = 2;
    std::int64_t dim = 0;
    double maxnorm = 1;
  };
  static constexpr double kAddedToNorm = 1e-7;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The norms of the slices: the call that finds them, and their shape beside x. */
struct SliceNorms {
  VectorNorm::Attrs attrs;
  Shape shape;
};
SliceNorms slice_norms(const Tensor& x, const Renorm::Attrs& attrs);

/** What a slice of some norm is multiplied by. */
template <class C> MZ_HD C renorm_factor(C norm, C maxnorm) {
  return norm > maxnorm ? maxnorm / (norm + static_cast<C>(Renorm::kAddedToNorm)) : C(1);
}

using RenormOps = type_list<Renorm>;

}  // namespace mezzo::op
