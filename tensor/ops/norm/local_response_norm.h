// Normalisation across neighbouring channels. ops.h explains the notation and the precision tags.
#pragma once

#include "../../core/op.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Options of local_response_norm. */
struct LocalResponseNormOptions {
  double alpha = 1e-4;  // factor of the mean of squares
  double beta = 0.75;   // exponent of the divisor
  double k = 1;         // added to the divisor before the power
};

/** Returns x / (k + alpha * a)^beta, where a is the mean of x^2 over `size` channels around each
 *  channel: size / 2 before it and (size - 1) / 2 after it, with zeros beyond the first and the
 *  last.
 *  Shape: x [n,c,...] with at least one more dimension.
 *  Precision: f32; computed in f32 (f64), one rounding.
 *  Gradient: the derivative.
 *  Errors: ShapeError, DtypeError; ValueError for size < 1.
 *  Source: Krizhevsky, Sutskever, Hinton, NIPS 2012. */
MZ_API Tensor local_response_norm(const Tensor& x, std::int64_t size,
                                  const LocalResponseNormOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** x / (k + alpha * mean of x^2 over `size` channels)^beta. */
struct LocalResponseNorm {
  static constexpr OpTraits traits{
      .name = "local_response_norm",
      .precision = Precision::f32,
      .summary = "divides by a power of the mean square of neighbouring channels"};
  struct Attrs {
    std::int64_t size = 1;
    double alpha = 1e-4, beta = 0.75, k = 1;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using LocalResponseNormOps = type_list<LocalResponseNorm>;

}  // namespace mezzo::op
