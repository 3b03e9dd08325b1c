// AmpOptimizerState: a session's state for one optimizer, and its hooks into the optimizer's steps:
// master weights, scaled gradients, skipped steps.
// See also: scale_loss.cpp (calls the functions for scopes).
#pragma once

#include <exception>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "../../optim/optimizer.h"
#include "../session_core.h"

namespace mezzo::amp {

/** Parameters that a scope has processed. A parameter of several optimizers is processed once. */
using Seen = std::unordered_set<const TensorImpl*>;

/** Returns the flag on a device: itself, or a copy; reset memory if it is undefined. */
optim::FoundInf moved_to(Device device, const optim::FoundInf& found);

/** The unscaling of one gradient: out = a x + b y. */
struct UnscaleWork {
  optim::AxpbyTensors tensors;
  optim::Factor a, b;
  bool fresh;  // x is a new gradient, to be checked for infinities and NaNs
};

/** The loss scale of a scope, as it was when the scope was opened. */
struct ScopeScale {
  double on_host = 1;
  Tensor on_device = {};     // f64, one element; if defined, it replaces on_host
  std::int64_t version = 0;  // LossScaler::version() then

  /** Returns the scale. Waits for the device if it is there. */
  double value() const { return on_device.defined() ? on_device.item<double>() : on_host; }
  /** Returns 1 / scale as a factor of gradients on `device`. Waits if the scale is on another. */
  optim::Factor inverse(Device device) const {
    if (!on_device.defined() || on_device.device() != device) return 1 / value();
    return optim::Factor::over(1, on_device.data<double>());
  }
};

/** The mixed-precision state of one optimizer in a session. */
class MZ_API AmpOptimizerState final : public optim::OptimizerHooks,
                                       public optim::StepObserver,
                                       public std::enable_shared_from_this<AmpOptimizerState> {
 public:
  AmpOptimizerState(std::shared_ptr<SessionCore> core, optim::Optimizer& optimizer);

  /** Returns the state of an optimizer; null if it is attached to no session. */
  static std::shared_ptr<AmpOptimizerState> of(optim::Optimizer& optimizer);

  const std::shared_ptr<SessionCore>& core() const { return core_; }
  optim::Optimizer* optimizer() const { return optimizer_; }
  std::size_t index() const { return index_; }

  // ---- for scopes -------------------------------------------------------------------------------
  /** The scaler and scale of gradients that a scope with delay_unscale left scaled. */
  struct Pending {
    int loss_id;
    ScopeScale scale;

    /** Returns true if a scope of this loss and scale can add to the gradients. Waits for the
     *  device only if the scale may have changed. */
    bool fits(int loss, const ScopeScale& other) const;
    /** Returns a text such as "loss 0 times 65536". */
    std::string text() const;
  };
  std::optional<Pending> pending;
  bool in_scope = false;
  bool unstepped = false;           // no step() or zero_grad() since the last scope
  std::exception_ptr stored_error;  // from the end of a scope; the next step rethrows it

  /** Throws if a gradient was not reduced over the processes that train together. Errors:
   *  StateError naming it. */
  void require_reduced_gradients() const;
  /** Adds the optimizer's parameters to `seen`. */
  void mark_seen(Seen& seen) const;
  /** Stashes the gradients, except those of 16-bit parameters whose gradients are already
   *  accumulated in their masters. The masters must be up to date. */
  void prepare(Seen& seen);
  /** Removes the gradients that prepare() has listed. Allocates nothing. */
  void enter();
  /** Discards the result of prepare(). */
  void forget_stash() {
    entered_.clear();
    stash_.clear();
  }
  /** Appends the unscaling of this optimizer's new gradients to `work`, and creates missing
   *  masters. */
  void collect(Seen& seen, const ScopeScale& scale, std::vector<UnscaleWork>& work);
  /** Sets the unscaled gradients and discards the stash. */
  void finish();
  /** Discards the result of collect(); gradients stay as they are. */
  void forget_results() {
    new_gradients_.clear();
    merged_.clear();
  }
  /** Drops the new gradients and restores the stashed ones. */
  void roll_back(Seen& seen);

  // ---- skipped steps ----------------------------------------------------------------------------
  /** Returns the flag in the memory of `device` that is raised if the next step must be skipped. */
  const optim::FoundInf& skip_flag(Device device);
  /** Makes the next step depend on the flag, for an overflow in a loss. Reads a flag on the CPU:
   *  does nothing if it is not raised. */
  void depend_on_flag(int loss_id);
  /** Completes the check of the loss that may have raised the flag. Call it before another loss
   *  raises the flag. */
  void complete_check();
  /** Returns true if the next step depends on the flag. */
  bool depends_on_flag() const { return loss_of_flag_.has_value(); }
  /** Returns true if the next step will be skipped. Waits for the device. */
  bool will_skip() const { return loss_of_flag_ && skip_flag_.raised(); }
  /** Drops all state that is pending for a step: scaled gradients, a skip, an error. */
  void forget_iteration();

  // ---- optim::OptimizerHooks --------------------------------------------------------------------
  std::optional<optim::StepResult> before_step(optim::Optimizer& optimizer,
                                               optim::StepCondition& condition) override;
  void after_step(optim::Optimizer& optimizer, const optim::StepResult& result) override;
  void after_zero_grad(optim::Optimizer& optimizer) override;
  void before_add(optim::Optimizer& optimizer, std::span<optim::Slot> slots) override;
  void before_replay(optim::Optimizer& optimizer) override;
  void capture_abandoned(optim::Optimizer& optimizer) noexcept override;
  void after_replay(optim::Optimizer& optimizer) override;
  void detached(optim::Optimizer& optimizer) noexcept override;

  // ---- optim::StepObserver ----------------------------------------------------------------------
  void skips_found(optim::Optimizer& optimizer, std::int64_t skips,
                   std::int64_t diverged_after) override;

 private:
  /** Calls f with each slot, unless the optimizer was destroyed. */
  template <class F> void each(const F& f) const;
  /** Returns the device of all parameters; the CPU if they are on several. */
  Device device_of_params() const;
  void collect_for_master(const optim::Slot& slot, std::uint32_t number, const ScopeScale& scale,
                          std::vector<UnscaleWork>& work);
  void collect_in_place(const Tensor& param, std::uint32_t number, const optim::Factor& new_factor,
                        const optim::Factor& old_factor, std::vector<UnscaleWork>& work);
  /** Sets merged_ and returns the factors that bring new and earlier gradients to that scale. */
  std::pair<optim::Factor, optim::Factor> merge_with(const ScopeScale& scale);
  void refuse_unfit_step() const;
  void refuse_gradients_without_scope() const;
  void finish_check();

  std::shared_ptr<SessionCore> core_;
  optim::Optimizer* optimizer_;  // null after it was destroyed
  std::size_t index_;
  std::optional<int> loss_of_flag_;  // the loss whose overflow may make the next step skip
  int last_loss_ = 0;                // that of the latest step
  optim::FoundInf skip_flag_;        // reset between a step and the next scope
  // The scale of gradients that stay scaled until the step: f64, one element; undefined: 1.
  Tensor held_scale_;
  bool holds_gradients_ = false;  // a scope since the last step has set held_scale_
  // Between collect() and finish(): the scale of new and earlier gradients, and what the factors
  // point to.
  std::vector<Tensor> merged_;
  std::vector<Tensor> entered_;  // parameters whose gradients enter() removes
  // Gradients from before the scope, by parameter.
  std::unordered_map<const TensorImpl*, Tensor> stash_;
  // Parameters or masters with their unscaled gradients.
  std::vector<std::pair<Tensor, Tensor>> new_gradients_;
};

}  // namespace mezzo::amp
