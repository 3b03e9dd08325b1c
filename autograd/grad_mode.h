// grad_enabled and NoGrad. GradMode and NoGradNoCasts are in tensor/core/dispatch.h.
#pragma once

#include "../tensor/core/dispatch.h"

namespace mezzo {

/** Returns whether ops on this thread are recorded for the backward pass. */
inline bool grad_enabled() { return thread_hooks().grad_enabled; }

/** Turns recording off until the end of the scope, for evaluation and parameter updates. */
class NoGrad : GradMode {
 public:
  NoGrad() : GradMode(false) {}
};

}  // namespace mezzo
