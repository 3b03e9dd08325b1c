// Clipping of gradients between backward and step.
// Sees: tensor.
// Read next: multi_tensor.h (the kernels it runs on).
#pragma once

#include <limits>
#include <vector>

#include "../tensor/tensor_list.h"

namespace mezzo::optim {

struct ClipOptions {
  double norm_type = 2;             // infinity: the largest magnitude
  bool error_if_nonfinite = false;  // throw, before anything is scaled, when the norm is infinite or NaN
};

/** Scales all gradients by min(1, max_norm / (norm + 1e-6)), where norm is that of all their elements taken together; returns the norm
 *  before clipping, 0-dim f32 (f64 where a gradient is). Parameters without a gradient are passed over. A NaN norm makes every gradient NaN, an
 *  infinite one makes them 0 or NaN.
 *  Precision: norm in f64; products in f32, rounded once. Errors: ValueError for a negative max_norm, a norm_type that is not positive, or a
 *  non-finite norm if asked for; StateError for a parameter whose f32 master is the one to clip. */
MZ_API Tensor clip_grad_norm(TensorList params, double max_norm, const ClipOptions& options = {});

/** Clamps every gradient element to [-limit, limit]; NaN stays. Errors: ValueError for a negative limit; StateError as above. */
MZ_API void clip_grad_value(TensorList params, double limit);

}  // namespace mezzo::optim
