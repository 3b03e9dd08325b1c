// AmpOptimizerState: the state of one optimizer in a session or a GradScaler: its overflow flag; in
// a session also the hooks into its steps, for master weights and scaled gradients.
// See also: loss_scaler.h (the scale that its overflows move), scale_loss.cpp (calls the functions
// for scopes).
#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "../../optim/device_step_state.h"
#include "../diagnose/gradient_watch.h"
#include "../session_core.h"
#include "scope_gradients.h"

namespace mezzo::amp {

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
  optim::Optimizer* optimizer() const { return clock ? clock->owner() : nullptr; }
  /** Returns true between GradScaler's unscale_() or step() and update(). */
  bool in_use() const { return unscaled || stepped; }

  const std::shared_ptr<SessionCore> core;
  std::shared_ptr<optim::DeviceStepState> clock;  // of the optimizer; null after it was detached
  std::size_t index = 0;                          // in LossScaler::optimizers
  std::string name;                               // in messages
  LossScaler* scaler;                             // of the latest step
  optim::FoundInf found = {};                     // raised: the next step must be skipped
  // unscaled: gradients were unscaled, since the last step under scale_loss, else since update().
  // The others are GradScaler's: step() was called, and a gradient was used, since update().
  bool unscaled = false, stepped = false, had_gradients = false;
  int reached = 0;  // GradScaler's: the backward passes from scaled losses before it unscaled
  // GradScaler's: of the last fused step, if it is not known whether that has unscaled gradients.
  std::optional<optim::StepResult> fused_result = {};

  std::int64_t steps = 0;  // under a session: begun so far
  bool scoped = false;     // a scope has ended since the gradients were removed
  bool saw_loss = false;   // since the latest step: a loss on the CPU
  bool lost_loss = false;  // one that is not finite

  // ---- for scopes -------------------------------------------------------------------------------
  std::optional<ScaleValue> pending;  // of gradients that a scope with delay_unscale left scaled
  bool in_scope = false;
  std::exception_ptr stored_error;  // from the end of a scope; the next step rethrows it
  ScopeGradients gradients{core ? &core->stash : nullptr};
  // Of the loss whose overflow may have raised the flag `found`: the next step depends on it.
  LossScaler* raised_by = nullptr;
  // Of each loss: raised by an overflow that a scope with delay_overflow_check has found. The next
  // scope of the loss that checks, adds it to `found`. In use if LossScaler::delayed lists this.
  std::vector<optim::FoundInf> delayed;

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
  std::optional<optim::StepResult> before_step(optim::Optimizer& optimizer,
                                               optim::FoundInf& skips_if,
                                               optim::Factor& unscale) override;
  Tensor low_copy(const Tensor& param) override;
  void after_step(optim::Optimizer& optimizer, const optim::StepResult& result) override;
  void after_zero_grad(optim::Optimizer& optimizer) override;
  void before_add(optim::Optimizer& optimizer, std::span<optim::Slot> slots) override;
  void before_replay(optim::Optimizer& optimizer) override;
  void capture_abandoned(optim::Optimizer& optimizer) noexcept override;
  void after_replay(optim::Optimizer& optimizer) override;
  void detached(optim::Optimizer& optimizer) noexcept override;
  void skips_found(optim::Optimizer& optimizer, std::int64_t skips,
                   std::int64_t diverged_after) override;

 private:
  /** Sets merged_ and returns the factors that bring new and earlier gradients to that scale. */
  std::pair<optim::Factor, optim::Factor> merge_with(const ScaleValue& scale);
  /** Clears the record of gradients pending for a step. */
  void forget_gradients();
  /** Looks for non-finite gradients now and then, where a session does not check every step. */
  void watch_gradients(std::int64_t new_steps, bool saw, bool lost);

  std::vector<Tensor> lent_;  // parameters whose casts the running step writes
  // The scale of gradients that stay scaled until the step: f64, one element; undefined: 1.
  Tensor held_scale_;
  bool holds_gradients_ = false;  // a scope since zero_grad() has set held_scale_
  // Between collect() and finish(): the scale of new and earlier gradients, and what the factors
  // point to.
  std::vector<Tensor> merged_;
  GradientWatch watch_;
};

}  // namespace mezzo::amp
