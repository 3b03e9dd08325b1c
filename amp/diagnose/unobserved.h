// Unobserved: a scope for the ops that observers run themselves: they are not recorded, cast or
// traced.
#pragma once

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/ops.h"

namespace mezzo::amp {

/** Switches gradients, casts and the trace hook off until the end of the scope. */
class Unobserved {
 public:
  Unobserved() : hook_(thread_hooks().trace) { thread_hooks().trace = nullptr; }
  ~Unobserved() { thread_hooks().trace = hook_; }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  TraceHook* hook_;
  NoGradNoCasts plain_ops_;
};

/** Returns true if all elements are finite; also for undefined, empty and integer tensors. Runs
 *  ops: call it inside an Unobserved scope. Synchronises with the device. */
inline bool finite(const Tensor& x) {
  return !x.defined() || !is_floating(x.dtype()) || x.numel() == 0 || all(isfinite(x)).item<bool>();
}

}  // namespace mezzo::amp
