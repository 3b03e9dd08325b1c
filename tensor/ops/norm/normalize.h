// Normalisation in public ops and its gradient, for the recorded gradients of the norms.
#pragma once

#include "../elementwise/operators.h"
#include "../elementwise/pointwise.h"
#include "../reduce/reduce.h"
#include "line_scale.h"

namespace mezzo {

/** x normalised over `dims`, differentiably. */
struct Normalized {
  Tensor normal;  // (x - mean) * rstd
  Tensor rstd;    // with kept dimensions

  /** Normalises x. Without `centered` the mean is taken as 0, as in rms_norm. */
  Normalized(const Tensor& x, const Dims& dims, double eps, bool centered) {
    // Scaled, so that squares of huge numbers do not overflow.
    const Tensor sizes = abs(x.detach());
    const Tensor largest =
        x.numel() > 0 ? amax(sizes, dims, {.keepdim = true}) : sum(sizes, dims, {.keepdim = true});
    const Tensor scale = at_most_for(scale_of_sizes(largest), eps);
    const Tensor line = scaled(x, scale);
    const Tensor deviation = centered ? line - mean(line, dims, {.keepdim = true}) : line;
    const Tensor scaled_rstd =
        rsqrt(mean(deviation * deviation, dims, {.keepdim = true}) + eps * (scale * scale));
    normal = deviation * scaled_rstd;
    rstd = scaled_rstd * scale;
  }

  /** Returns the gradient of x, where g is the gradient of `normal`. */
  Tensor gradient(const Tensor& g, const Dims& dims, bool centered) const {
    const Tensor along = normal * mean(g * normal, dims, {.keepdim = true});
    return rstd * (centered ? g - mean(g, dims, {.keepdim = true}) - along : g - along);
  }
};

}  // namespace mezzo
