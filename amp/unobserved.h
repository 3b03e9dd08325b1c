// Unobserved: for what the observers compute for themselves, which must not be recorded, cast or traced.
// Sees: tensor/dispatch.h, autograd/grad_mode.h.
// Read next: trace.cpp, detect_nonfinite.cpp (its users).
#pragma once

#include "../autograd/grad_mode.h"
#include "../tensor/dispatch.h"

namespace mezzo::amp {

class Unobserved {
 public:
  Unobserved() : hook_(thread_hooks().trace) { thread_hooks().trace = nullptr; }
  ~Unobserved() { thread_hooks().trace = hook_; }
  Unobserved(const Unobserved&) = delete;
  Unobserved& operator=(const Unobserved&) = delete;

 private:
  TraceHook* hook_;
  NoGrad no_grad_;
  CastScope no_casts_{nullptr};
};

}  // namespace mezzo::amp
