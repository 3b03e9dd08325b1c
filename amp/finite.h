// finite(): whether every element of a tensor is, for those who look for the ones that are not.
// Sees: autograd/ops.h.
// Read next: detect_nonfinite.cpp, nonfinite_gradient.cpp (its users).
#pragma once

#include "../autograd/ops.h"

namespace mezzo::amp {

/** True also for what can hold neither infinity nor NaN. Runs ops: call it unobserved. */
inline bool finite(const Tensor& x) {
  return !x.defined() || !is_floating(x.dtype()) || x.numel() == 0 || all(isfinite(x)).item<bool>();
}

}  // namespace mezzo::amp
