// Scopes that turn the recording of gradients off and on.
#pragma once

#include "../tensor/core/dispatch.h"

namespace mezzo {

/** Returns whether ops on this thread are recorded for the backward pass. */
inline bool grad_enabled() { return thread_hooks().grad_enabled; }

/** Sets recording for this thread until the end of the scope. Scopes nest. */
class GradMode {
 public:
  /** Turns recording on this thread on or off; the destructor restores the previous mode. */
  explicit GradMode(bool enabled) : previous_(thread_hooks().grad_enabled) {
    thread_hooks().grad_enabled = enabled;
  }
  ~GradMode() { thread_hooks().grad_enabled = previous_; }
  GradMode(const GradMode&) = delete;
  GradMode& operator=(const GradMode&) = delete;

 private:
  bool previous_;
};

/** Turns recording off until the end of the scope, for evaluation and parameter updates. */
class NoGrad : GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

/** Turns recording and casts off until the end of the scope, for the library's own arithmetic on
 *  parameters, gradients and states. */
class NoGradNoCasts {
  NoGrad no_grad_;
  CastScope no_casts_{nullptr};
};

}  // namespace mezzo
