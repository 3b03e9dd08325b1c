// AmpOptimizerState: a session's state for one optimizer, and its hooks into the optimizer's steps:
// master weights, scaled gradients, skipped steps.
// See also: scale_loss.cpp (calls the functions for scopes).
#pragma once

#include <exception>
#include <memory>
#include <optional>

#include "../session_core.h"
#include "scaled_optimizer.h"
#include "scope_gradients.h"

namespace mezzo::amp {

/** The mixed-precision state of one optimizer in a session. */
class MZ_API AmpOptimizerState final : public optim::OptimizerHooks, public ScaledOptimizer {
 public:
  AmpOptimizerState(std::shared_ptr<SessionCore> session, optim::Optimizer& optimizer);

  /** Returns the state of an optimizer; null if it is attached to no session. */
  static std::shared_ptr<AmpOptimizerState> of(optim::Optimizer& optimizer);

  const std::shared_ptr<SessionCore> core;

  // ---- for scopes -------------------------------------------------------------------------------
  std::optional<ScaleValue> pending;  // of gradients that a scope with delay_unscale left scaled
  bool in_scope = false;
  std::exception_ptr stored_error;  // from the end of a scope; the next step rethrows it
  ScopeGradients gradients;
  // Of the loss whose overflow may have raised the flag `found`: the next step depends on it.
  LossScaler* raised_by = nullptr;
  // Of each loss: raised by an overflow that a scope with delay_overflow_check has found. The next
  // scope of the loss that checks, adds it to `found`. In use if LossScaler::delayed lists this.
  std::vector<optim::FoundInf> delayed;

  /** Returns a text such as "loss 0 times 65536" about the pending gradients. */
  std::string pending_text() const;
  /** Sets the earlier gradients aside; see ScopeGradients. */
  void prepare(Seen& seen);
  /** Appends the unscaling of this optimizer's new gradients to `sums`, and creates missing
   *  masters. finish() applies the result. */
  void collect(Seen& seen, const ScaleValue& scale, std::vector<GradientSum>& sums);
  /** Sets the unscaled gradients. */
  void finish();
  /** Completes the check of the loss that may have raised the flag. Call it before another loss
   *  raises the flag. */
  void finish_check();
  /** Makes the next step depend on the flag, for an overflow in a loss. Reads a flag on the CPU:
   *  does nothing if it is not raised. */
  void depend_on_flag(LossScaler& of_loss);
  /** Throws unless the gradients have been unscaled. Errors: StateError. */
  void require_unscaled(std::string_view op) const;
  /** Throws if gradients, an error or a skip are pending for a step. Waits for the device. Errors:
   *  StateError that says how to finish the iteration. */
  void require_stepped(std::string_view op) const;
  /** Drops all state that is pending for a step: scaled gradients, a skip, an error. */
  void forget_iteration();

  // ---- optim::OptimizerHooks and StepObserver ---------------------------------------------------
  std::optional<optim::StepResult> before_step(optim::Optimizer& optimizer,
                                               optim::StepCondition& condition) override;
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

  // The scale of gradients that stay scaled until the step: f64, one element; undefined: 1.
  Tensor held_scale_;
  bool holds_gradients_ = false;  // a scope since the last step has set held_scale_
  // Between collect() and finish(): the scale of new and earlier gradients, and what the factors
  // point to.
  std::vector<Tensor> merged_;
};

}  // namespace mezzo::amp
