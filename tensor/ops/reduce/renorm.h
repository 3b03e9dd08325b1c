// renorm: scales slices of a tensor down to a norm.
#pragma once

#include "../../core/op.h"
#include "../../core/tensor.h"
#include "statistics.h"

namespace mezzo {

/** Returns x with each slice along `dim` whose p-norm exceeds maxnorm scaled down to maxnorm.
 *  Shape: x's, with 2 dimensions or more.
 *  Precision: f32; computed in f32.
 *  Gradient: through the norm for the scaled slices.
 *  Errors: ShapeError, IndexError; DtypeError for integers; ValueError unless p > 0 and maxnorm >=
 *  0. */
MZ_API Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm);

/** Overwrites self with renorm(self, p, dim, maxnorm) and returns it. */
MZ_API const Tensor& renorm_(const Tensor& self, double p, std::int64_t dim, double maxnorm);

}  // namespace mezzo

namespace mezzo::op {

/** x with each slice along dim whose p-norm n exceeds maxnorm multiplied by maxnorm / (n +
 *  1e-7). */
struct Renorm {
  static constexpr OpTraits traits{.name = "renorm",
                                   .precision = Precision::f32,
                                   .summary = "scales slices down to a maximum p-norm",
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

/** The attributes of the VectorNorm that computes the norms of the slices, and their shape. */
struct SliceNorms {
  VectorNorm::Attrs attrs;
  Shape shape;
};

/** Returns how to compute the norms of x's slices. */
SliceNorms slice_norms(const Tensor& x, const Renorm::Attrs& attrs);

/** Returns the factor of a slice with the given norm. */
template <class C> MZ_HD C renorm_factor(C norm, C maxnorm) {
  return norm > maxnorm ? maxnorm / (norm + static_cast<C>(Renorm::kAddedToNorm)) : C(1);
}

using RenormOps = type_list<Renorm>;

}  // namespace mezzo::op
