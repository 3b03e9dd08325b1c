// Hooks on gradients and on backward passes.
// See also: autograd/README.md (hooks and threads).
#pragma once

#include <cstdint>
#include <exception>

#include "node.h"

namespace mezzo {

/** Calls `hook` with the gradient of x whenever a backward pass computes it, before the gradient is
 *  passed on. A defined result replaces the gradient and must have its shape, dtype and device.
 *  Hooks run in order of registration. The result removes the hook.
 *  Errors: StateError when x requires no gradient. */
MZ_API HookHandle register_hook(const Tensor& x, GradHook hook);

/** Calls `hook` with the leaf after a backward pass has accumulated into its gradient, on one
 *  thread at a time. The gradients of nn::DistributedDataParallel are reduced by then. The result
 *  removes the hook.
 *  Errors: StateError unless x is a leaf that requires a gradient. */
MZ_API HookHandle register_post_accumulate_grad_hook(const Tensor& leaf, LeafHook hook);
/** Calls the leaf's hooks of register_post_accumulate_grad_hook. */
MZ_API void run_post_accumulate_grad_hooks(const Tensor& leaf);

/** A function that is called at the end of a backward pass, with the exception that ended it, or
 *  null. */
using BackwardEnd = std::function<void(const std::exception_ptr& failure)>;

/** Calls `end` once, at the end of the backward() that runs on this thread, after all gradients are
 *  in the leaves or after an exception. Where a backward pass runs inside another, that is the end
 *  of the outer one. Functions run in order of registration; they may throw, which ends backward()
 *  with that exception unless it has one already. Corresponds to PyTorch's
 *  Variable._execution_engine.queue_callback.
 *  Errors: StateError outside backward(), also in grad(). */
MZ_API void at_end_of_backward(BackwardEnd end);

/** The outermost running backward() of a thread calls the functions of at_end_of_backward(); used
 *  by backward(). */
class BackwardScope {
 public:
  BackwardScope();
  ~BackwardScope();
  BackwardScope(const BackwardScope&) = delete;
  BackwardScope& operator=(const BackwardScope&) = delete;
  /** Calls the functions if this is the outermost scope, and rethrows the first exception:
   * `failure` if it is not null. Call it once, last. */
  void finish(const std::exception_ptr& failure);
};

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

/** Calls the observers of this thread, and counts the pass; called by backward(). */
void notify_backward(const Tensor& output);

/** Returns the number of calls of backward() so far in this process; grad() does not count. */
MZ_API std::uint64_t backward_passes() noexcept;

}  // namespace mezzo
