// Hooks on gradients.
// See also: autograd/README.md (hooks and threads).
#pragma once

#include "node.h"

namespace mezzo {

/** Calls `hook` with the gradient of x whenever a backward pass computes it, before the gradient is
 *  passed on. A defined result replaces the gradient and must have its shape, dtype and device.
 *  Hooks run in order of registration.
 *  Errors: StateError when x requires no gradient. */
MZ_API void register_hook(const Tensor& x, GradHook hook);

/** Calls `hook` with the leaf after a backward pass has accumulated into its gradient, on one
 *  thread at a time.
 *  Errors: StateError unless x is a leaf that requires a gradient. */
MZ_API void register_post_accumulate_grad_hook(const Tensor& leaf,
                                               std::function<void(const Tensor& leaf)> hook);

/** Observes the backward passes of the thread that constructs it, until it is destroyed. */
class MZ_API BackwardObserver {
 public:
  BackwardObserver(const BackwardObserver&) = delete;
  BackwardObserver& operator=(const BackwardObserver&) = delete;

  /** Called when backward() starts, with the tensor it was called on, or the first of a list. Not
   *  called for grad(). Must not throw. */
  virtual void begin_backward(const Tensor& output) noexcept = 0;

 protected:
  BackwardObserver();
  ~BackwardObserver();

 private:
  friend void notify_backward(const Tensor& output);
  BackwardObserver* outer_;  // constructed before this one
};

/** Calls the observers of this thread; called by backward(). */
void notify_backward(const Tensor& output);

}  // namespace mezzo
