// Normalisation by what neighbouring channels hold.
// Sees: tensor.
// Read next: norm.h, ../../tensor/ops/local_response_norm.h.
#pragma once

#include "../../tensor/tensor.h"

namespace mezzo {

struct LocalResponseNormOptions {
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
};

/** x / (k + alpha * a)^beta, where a is the mean of x^2 over `size` channels around each: size / 2 before it and (size - 1) / 2 behind, zeros
 *  beyond the first and the last.
 *  Shape: x [n,c,...] with at least one more dimension.   Precision: full; f32 (f64) inside, one rounding.   Gradient: of these ops.
 *  Errors: ShapeError, DtypeError; ValueError for size < 1.   Source: Krizhevsky, Sutskever, Hinton, NIPS 2012. */
MZ_API Tensor local_response_norm(const Tensor& x, std::int64_t size,
                                  const LocalResponseNormOptions& options = {});

}  // namespace mezzo
