// The running logarithm of a sum of exponentials along one dimension.
#pragma once

#include "scan.h"

namespace mezzo {

/** Returns log(exp(x[0]) + ... + exp(x[k])) along `dim`, without overflow.
 *  Shape: x's.
 *  Precision: f32; integers and bool give f32.
 *  Gradient: the sum over k >= i of g[k] exp(x[i] - y[k]); 0 for x[i] of -inf, where PyTorch gives
 *  nan if no greater element comes before.
 *  Errors: IndexError. */
MZ_API Tensor logcumsumexp(const Tensor& x, std::int64_t dim);

}  // namespace mezzo

namespace mezzo::op {

/** y[k] = log of the sum of exp(x[0..k]) along dim, or of exp(x[k..]) when reversed. */
struct Logcumsumexp {
  static constexpr OpTraits traits{.name = "logcumsumexp",
                                   .precision = Precision::f32,
                                   .summary = "running log-sum-exp along a dimension",
                                   .needs = {input(0)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = Cumsum::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using LogcumsumexpOps = type_list<Logcumsumexp>;

}  // namespace mezzo::op
