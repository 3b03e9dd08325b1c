// finite(): whether all elements of a tensor are finite.
#pragma once

#include "../../tensor/ops/ops.h"

namespace mezzo::amp {

/** Returns true if all elements are finite; also for undefined, empty and integer tensors. Runs
 *  ops: call it inside an Unobserved scope. Synchronises with the device. */
inline bool finite(const Tensor& x) {
  return !x.defined() || !is_floating(x.dtype()) || x.numel() == 0 || all(isfinite(x)).item<bool>();
}

}  // namespace mezzo::amp
