// scale_loss: multiplies a loss by the current scale for one backward pass, and divides the gradients by it afterwards.
// Sees: session_core.h, object_list.h; optim.
// Read next: scale_loss.cpp (entry and exit), optimizer_link.h.
#pragma once

#include <concepts>
#include <memory>
#include <type_traits>
#include <vector>

#include "../optim/optimizer.h"
#include "object_list.h"

namespace mezzo::amp {

using OptimizerList = ObjectList<optim::Optimizer>;

struct ScaleLossOptions {
  int loss_id = 0;                    // which of the session's scalers
  bool delay_unscale = false;         // another scope adds to these gradients before the step
  bool delay_overflow_check = false;  // an overflow found here is acted on at the next checked exit
};

/** A loss that is scaled until the end of the scope. */
class MZ_API ScaledLoss {
 public:
  /** Enters. Errors: StateError without a session, for an optimizer of no or another session, for one in an open scope, and for scaled gradients
   *  of another scale that wait; ValueError for a loss_id out of range. Nothing has changed then. */
  ScaledLoss(const Tensor& loss, const OptimizerList& optimizers, const ScaleLossOptions& options = {});
  ScaledLoss(ScaledLoss&& other) noexcept;
  ScaledLoss& operator=(ScaledLoss&&) = delete;
  /** Closes, unless closed; while an exception flies, as if the body had thrown. An error here is thrown by the optimizer's next step. */
  ~ScaledLoss();

  /** What to call backward() on: the loss in f32, times the scale. */
  const Tensor& loss() const;
  /** Unscales the gradients, checks them and moves the scale; the next step is skipped where they overflowed. */
  void close();
  /** Drops the scope's gradients, as if it had not been. */
  void abandon();

 private:
  struct Scope;
  std::unique_ptr<Scope> scope_;
};

/** Calls body(loss times scale), which runs backward(); then unscales the gradients of all parameters of `optimizers` and checks them for
 *  overflow. Pass all optimizers that own parameters which receive gradients here. When body throws, its gradients are dropped, earlier ones stay
 *  and the exception goes on.
 *  Precision: the loss enters in f32, gradients are unscaled in f32. Errors: as ScaledLoss. */
template <class Body>
requires std::invocable<Body&, const Tensor&>
void scale_loss(const Tensor& loss, const OptimizerList& optimizers, const ScaleLossOptions& options,
                Body&& body) {
  ScaledLoss scope(loss, optimizers, options);
  try {
    body(scope.loss());
  } catch (...) {
    scope.abandon();
    throw;
  }
  scope.close();
}

template <class Body>
requires std::invocable<Body&, const Tensor&>
void scale_loss(const Tensor& loss, const OptimizerList& optimizers, Body&& body) {
  scale_loss(loss, optimizers, ScaleLossOptions{}, std::forward<Body>(body));
}

/** The scope itself: `auto scope = amp::scale_loss(loss, optimizer); scope.loss().backward(); scope.close();` */
[[nodiscard]] inline ScaledLoss scale_loss(const Tensor& loss, const OptimizerList& optimizers,
                                           const ScaleLossOptions& options = {}) {
  return ScaledLoss(loss, optimizers, options);
}

}  // namespace mezzo::amp
