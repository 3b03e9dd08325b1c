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

#include <atomic>
#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../../optim/optimizer.h"
#include "../../optim/step/step_state.h"
#include "../diagnose/gradient_watch.h"
#include "../object_list.h"
#include "../session_core.h"
#include "gradients.h"
#include "scale.h"

namespace mezzo::amp {

class AmpOptimizerState;

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
  void unscale_gradients(const optim::FoundInf& found_inf);
  void unscale_and_check();
  void leave();
  void require_backward() const;
  LossScaler& scaler() const { return *scale_.scaler; }

  std::shared_ptr<SessionCore> core_;  // null: the scope is closed
  std::vector<std::shared_ptr<AmpOptimizerState>> states_;
  ScaleLossOptions options_;
  ScaleValue scale_ = {};  // as it was when the scope was opened
  Tensor loss_ = {};
  // Backward passes from loss_; null if the scale is 1, where any pass will do.
  std::shared_ptr<std::atomic<int>> reached_;
  std::uint64_t passes_ = 0;   // backward_passes() when the scope was opened
  std::shared_ptr<void> use_;  // of the scale: held until no gradient depends on it
  bool inert_ = true;          // nothing to unscale and nothing to check
  int exceptions_;             // in flight when the scope was opened
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

// ---- inside -------------------------------------------------------------------------------------

/** Returns x as a tensor of its own in the graph, with the same memory. A backward pass through it
 *  adds 1 to `reached` and passes the gradient on as it is. Once the caller has freed `reached`, it
 *  throws StateError in the name of `scope`, if that is given: the pass is too late.
 *  Returns x if it requires no gradient. */
Tensor watched(const Tensor& x, const std::shared_ptr<std::atomic<int>>& reached,
               std::string_view scope = {});

/** Throws for a call at a wrong point of the iteration. Errors: StateError. */
[[noreturn]] void refuse(std::string_view op, std::string what, std::string hint = {});

/** The mixed-precision state of one optimizer. Its gradients are unscaled, which raises the flag
 *  for a non-finite one; the step is taken, or skipped if the flag is raised; then the flag is
 *  reset. */
class MZ_API AmpOptimizerState final : public optim::OptimizerHooks,
                                       public std::enable_shared_from_this<AmpOptimizerState> {
 public:
  /** Adds the optimizer to those of a scaler, which is null in a disabled session. `session` is
   *  null in a GradScaler. */
  AmpOptimizerState(std::shared_ptr<SessionCore> session, LossScaler* scaler,
                    optim::Optimizer& optimizer);

  /** Returns the state of an optimizer; null if it is attached to no session. */
  static std::shared_ptr<AmpOptimizerState> of(optim::Optimizer& optimizer);

  /** Returns the optimizer; null after it was destroyed or detached. */
  optim::Optimizer* optimizer() const { return step_state ? step_state->owner() : nullptr; }
  /** Returns true between GradScaler's unscale_() or step() and update(). */
  bool in_use() const { return unscaled || stepped; }

  const std::shared_ptr<SessionCore> core;  // null in a GradScaler
  /** Counters and results of the optimizer; null after it was detached. */
  std::shared_ptr<optim::StepState> step_state;
  std::size_t index = 0;           // in LossScaler::optimizers
  std::string name;                // in messages
  LossScaler* scaler;              // of the latest step
  optim::FoundInf found_inf = {};  // raised: the next step must be skipped
  bool unscaled = false;       // gradients were, since the last step; in GradScaler since update()
  bool stepped = false;        // GradScaler's: step() was called since update()
  bool had_gradients = false;  // GradScaler's: since update() a step has found some
  int reached = 0;  // GradScaler's: the backward passes from scaled losses before it unscaled
  /** GradScaler's: of the last fused step, if it is not known whether that has unscaled
   *  gradients. */
  std::optional<optim::StepResult> fused_result = {};

  std::int64_t steps = 0;  // under a session: begun so far
  bool scoped = false;     // a scope has ended since the gradients were removed
  bool saw_loss = false;   // since the latest step: a loss on the CPU
  bool lost_loss = false;  // one that is not finite

  // ---- for scopes -------------------------------------------------------------------------------
  std::optional<ScaleValue> pending;  // of gradients that a scope with delay_unscale left scaled
  bool in_scope = false;              // a scope over the optimizer is open
  std::exception_ptr stored_error;    // from the end of a scope; the next step rethrows it
  ScopeGradients gradients{core ? &core->stash : nullptr};  // set aside by the scope, and its own
  /** Of the loss whose overflow may have raised the flag `found_inf`: the next step depends on it.
   */
  LossScaler* raised_by = nullptr;

  /** Throws if an optimizer of another session holds one of the parameters. `name_of` returns the
   *  name of a parameter, or nothing. Errors: StateError that names the parameter. */
  static void require_own(std::string_view op, const SessionCore* core,
                          std::span<const optim::Slot> slots,
                          const std::function<std::string(const Tensor&)>& name_of);
  /** Records that an optimizer of this session holds the parameters. */
  void hold(std::span<optim::Slot> slots);

  /** Returns a text such as "loss 0 times 65536" about the pending gradients. */
  std::string pending_text() const;
  /** Sets the earlier gradients aside; see ScopeGradients. Errors: StateError for gradients from a
   *  backward pass outside scale_loss, where those cannot be used. */
  void prepare(Seen& seen);
  /** Leaves the new gradients scaled, as `scale` says. */
  void delay(Seen& seen, const ScaleValue& scale);
  /** Forgets `pending` if the program has removed all gradients that were left scaled. */
  void refresh_pending();
  /** Unscales what delay_unscale left scaled, when the session ends. Drops all gradients instead if
   *  one is non-finite, if the next step would be skipped, or if a step would unscale them. `seen`:
   *  parameters of optimizers before this one. Waits for the device. */
  void finish_gradients(Seen& seen);
  /** Appends the unscaling of this optimizer's new gradients to `sums`, and creates missing
   *  masters. finish() applies the result. */
  void collect(Seen& seen, const ScaleValue& scale, std::vector<GradientSum>& sums);
  /** Sets the unscaled gradients. */
  void finish();
  /** Completes the check of the loss that may have raised the flag, so that another loss can raise
   *  it, and moves the flag to a device. */
  const optim::FoundInf& flag_on(Device device);
  /** Makes the next step depend on the flag, for an overflow in a loss. Reads a flag on the CPU:
   *  does nothing if it is not raised. */
  void depend_on_flag(LossScaler& of_loss);
  /** Throws unless the gradients have been unscaled, those of parameters that other optimizers of
   *  the session share too. Errors: StateError. */
  void require_unscaled(std::string_view op);
  /** Throws if the session scales losses and the parameters have gradients from a backward pass
   *  outside scale_loss only: they may have lost small values in 16 bits. Errors: StateError. */
  void require_scoped(std::string_view op);
  /** Throws if gradients, an error or a skip are pending for a step. Waits for the device. Errors:
   *  StateError that says how to finish the iteration. */
  void require_stepped(std::string_view op);
  /** Drops all state that is pending for a step: scaled gradients, a skip, an error. */
  void forget_iteration();

  // ---- optim::OptimizerHooks --------------------------------------------------------------------
  /** Refuses gradients that are still scaled, sets the flag, and brings masters up to date. */
  std::optional<optim::StepResult> before_step(optim::Optimizer& optimizer,
                                               optim::FoundInf& of_step) override;
  Tensor low_copy(const Tensor& param) override;
  /** Completes the check that the step has waited for, and resets the flag. */
  void after_step(optim::Optimizer& optimizer, const optim::StepResult& result) override;
  void after_zero_grad(optim::Optimizer& optimizer) override;
  /** Makes masters of new parameters; refuses those of other sessions. */
  void before_add(optim::Optimizer& optimizer, std::span<optim::Slot> slots) override;
  void before_replay(optim::Optimizer& optimizer) override;
  void capture_abandoned(optim::Optimizer& optimizer) noexcept override;
  void after_replay(optim::Optimizer& optimizer) override;
  void detached(optim::Optimizer& optimizer) noexcept override;
  void skips_found(optim::Optimizer& optimizer, std::int64_t skips,
                   std::int64_t diverged_after) override;

 private:
  /** Clears the record of gradients pending for a step. */
  void forget_gradients();
  /** Looks for non-finite gradients now and then, where a session does not check every step. */
  void watch_gradients(std::int64_t new_steps, bool saw, bool lost);

  std::vector<Tensor> lent_;  // parameters whose casts the running step writes
  GradientWatch watch_;
};

}  // namespace mezzo::amp
