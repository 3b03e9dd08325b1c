// Scopes that switch the recording of gradients off and on.
// Sees: tensor.
// Read next: engine.h.
#pragma once

#include "../tensor/dispatch.h"

namespace mezzo {

/** Whether ops on this thread record themselves for the backward pass. */
inline bool grad_enabled() { return thread_hooks().grad_enabled; }

/** Sets recording for this thread until the end of the scope; scopes nest. */
class GradMode {
 public:
  explicit GradMode(bool enabled) : previous_(thread_hooks().grad_enabled) {
    thread_hooks().grad_enabled = enabled;
  }
  ~GradMode() { thread_hooks().grad_enabled = previous_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/** No recording until the end of the scope: evaluation, parameter updates. */
class NoGrad : GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace mezzo
