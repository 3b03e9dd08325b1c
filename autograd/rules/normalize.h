// What the rules of the norms share, in public ops: x normalised over some dimensions, and the gradient through that.
// Sees: the public ops.
// Read next: batch_norm.cpp, layer_norm.cpp, group_norm.cpp.
#pragma once

#include "../ops/operators.h"
#include "../ops/pointwise.h"
#include "../ops/reduce.h"

namespace mezzo {

/** x normalised over `dims`, differentiably. */
struct Normalized {
  Tensor normal;  // (x - mean) * rstd
  Tensor rstd;    // with kept dimensions

  /** `centered` off: mean is taken as 0, as rms_norm does. */
  Normalized(const Tensor& x, const Dims& dims, double eps, bool centered) {
    const Tensor deviation = centered ? x - mean(x, dims, {.keepdim = true}) : x;
    rstd = rsqrt(mean(deviation * deviation, dims, {.keepdim = true}) + eps);
    normal = deviation * rstd;
  }

  /** The gradient of x, where g is that of `normal`. */
  Tensor gradient(const Tensor& g, const Dims& dims, bool centered) const {
    const Tensor along = normal * mean(g * normal, dims, {.keepdim = true});
    return rstd * (centered ? g - mean(g, dims, {.keepdim = true}) - along : g - along);
  }
};

}  // namespace mezzo
