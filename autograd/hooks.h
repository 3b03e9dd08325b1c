// Hooks: functions that see gradients on their way.
// Sees: node.h.
// Read next: engine.cpp (when they run).
#pragma once

#include "node.h"

namespace mezzo {

/** Calls `hook` with the gradient of x whenever a backward computes it, before it goes further; a defined result replaces the gradient and
 *  must keep its shape, dtype and device. Hooks run in order of registration. Errors: StateError when x requires no gradient. */
MZ_API void register_hook(const Tensor& x, GradHook hook);

/** Calls `hook` with the leaf after a backward has accumulated into its gradient, on one thread at a
 *  time. Errors: StateError unless x is a leaf that requires a gradient. */
MZ_API void register_post_accumulate_grad_hook(const Tensor& leaf,
                                               std::function<void(const Tensor& leaf)> hook);

}  // namespace mezzo
