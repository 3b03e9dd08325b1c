// scale_loss: multiplies a loss by the loss scale for one backward pass, and divides the gradients
// by it afterwards. In short:
//   (loss * scale).backward();
//   grad / scale, for each gradient of the optimizers; if one is not finite, the scale is halved
//   and the next step skipped.
// The rest of this folder is what these lines leave open: where scale and overflow flag lie,
// gradients from before the scope, masters, several losses, optimizers and processes.
//
// See also: scale.h (the scale), gradients.h (the division and the check).
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "../../optim/optimizer.h"
#include "../object_list.h"
#include "scale.h"

namespace mezzo::amp {

class AmpOptimizerState;
struct ScaledPasses;
struct SessionCore;

/** One or several optimizers. */
using OptimizerList = ObjectList<optim::Optimizer>;

/** Options of scale_loss and ScaledLoss. */
struct ScaleLossOptions {
  int loss_id = 0;             // index of the session's loss scaler
  bool delay_unscale = false;  // keep gradients scaled: a later scope accumulates into them
};

/** The scope in which a loss is scaled. */
class MZ_API ScaledLoss {
 public:
  /** Opens the scope. Errors: StateError without a session, for an optimizer that belongs to no
   *  session, to another one, or to an open scope, if gradients are pending that another scale
   *  made or that delay_unscale left scaled for another optimizer, and at levels with masters if
   *  backward ran outside a scope or the program has written to a scaled gradient; ValueError for
   *  a loss_id out of range. Nothing has changed then. */
  ScaledLoss(const Tensor& loss, const OptimizerList& optimizers,
             const ScaleLossOptions& options = {});
  /** Takes over the scope; destroying `other` then does nothing. */
  ScaledLoss(ScaledLoss&& other) noexcept;
  ScaledLoss& operator=(ScaledLoss&&) = delete;
  /** Closes the scope, unless it is closed; abandons it during stack unwinding. The optimizer's
   *  next step throws an error that happens here. */
  ~ScaledLoss();

  /** Returns the loss in f32, times the scale. Call backward() on it. */
  const Tensor& loss() const;
  /** Unscales the gradients, checks them for overflow and updates the scale. After an overflow
   *  the next step is skipped. Errors: StateError if backward() was called on another tensor than
   *  loss(), such as the loss before it was scaled; the gradients of this scope are dropped then.
   */
  void close();
  /** Drops the gradients of this scope; earlier gradients stay. */
  void abandon();

 private:
  void enter(const Tensor& unscaled);
  void unscale_gradients(const optim::FoundInf& found_inf, bool own);
  void unscale_and_check();
  void leave();
  void require_backward() const;
  LossScaler& scaler() const { return *scale_.scaler; }

  std::shared_ptr<SessionCore> core_;  // null: the scope is closed
  std::vector<std::shared_ptr<AmpOptimizerState>> states_;
  ScaleLossOptions options_;
  ScaleValue scale_ = {};  // as it was when the scope was opened
  Tensor loss_ = {};
  std::shared_ptr<ScaledPasses> passes_;  // null if disabled
  bool inert_ = true;                     // nothing to unscale and nothing to check
  int exceptions_;                        // in flight when the scope was opened
};

/** Calls body(loss times scale), which runs backward(), then unscales the gradients of all
 *  parameters of `optimizers` and checks them for overflow. Pass every optimizer whose parameters
 *  receive gradients here. Gradients live until zero_grad(), at every level; those of a weight of
 *  several optimizers are unscaled once. Unlike apex, whose masters lose them at the step. If body
 *  throws, its gradients are dropped, earlier ones stay, and the
 *  exception is rethrown. The loss is converted to f32; gradients are unscaled in f32. Errors: as
 *  ScaledLoss. */
template <class Body>
requires std::invocable<Body&, const Tensor&>
void scale_loss(const Tensor& loss, const OptimizerList& optimizers,
                const ScaleLossOptions& options, Body&& body) {
  ScaledLoss scope(loss, optimizers, options);
  try {
    body(scope.loss());
  } catch (...) {
    scope.abandon();
    throw;
  }
  scope.close();
}

/** As above, with default options. */
template <class Body>
requires std::invocable<Body&, const Tensor&>
void scale_loss(const Tensor& loss, const OptimizerList& optimizers, Body&& body) {
  scale_loss(loss, optimizers, ScaleLossOptions{}, std::forward<Body>(body));
}

/** Returns the scope: `auto scope = amp::scale_loss(loss, optimizer); scope.loss().backward();
 *  scope.close();` */
[[nodiscard]] inline ScaledLoss scale_loss(const Tensor& loss, const OptimizerList& optimizers,
                                           const ScaleLossOptions& options = {}) {
  return ScaledLoss(loss, optimizers, options);
}

}  // namespace mezzo::amp
