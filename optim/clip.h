// Clipping of gradients, between backward and step.
#pragma once

#include <limits>
#include <vector>

#include "../tensor/core/tensor.h"

namespace mezzo::optim {

/** Options of clip_grad_norm. */
struct ClipOptions {
  double norm_type = 2;             // p of the p-norm; infinity: the largest magnitude
  bool error_if_nonfinite = false;  // throw before scaling if the norm is infinite or NaN
};

/** Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is the norm of all their
 *  elements together. Returns the norm before clipping, 0-dim f32 (f64 if a gradient is f64).
 *  Ignores parameters without a gradient. A parameter that is listed twice counts once, and is
 *  scaled once, and finite gradients whose norm f32 does not hold are scaled by the norm in f64.
 *  Unlike PyTorch, which does both twice, and makes such gradients 0. A NaN norm makes every
 *  gradient NaN, an infinite one makes them 0 or NaN.
 *  Precision: norm in f64; products in f32, rounded once.
 *  Errors: ValueError for a negative max_norm, a norm_type that is not positive, or, with
 *  error_if_nonfinite, a non-finite norm; StateError for a parameter whose f32 master must be
 *  clipped instead, or whose gradient a scale_loss with delay_unscale left scaled. */
MZ_API Tensor clip_grad_norm(TensorList params, double max_norm, const ClipOptions& options = {});

/** Clamps every gradient element to [-limit, limit]; NaN stays NaN. Errors: ValueError for a
 *  negative limit; StateError as clip_grad_norm. */
MZ_API void clip_grad_value(TensorList params, double limit);

}  // namespace mezzo::optim
