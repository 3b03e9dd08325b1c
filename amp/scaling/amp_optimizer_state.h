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
#include "skip_watch.h"

namespace mezzo::amp {

/** Parameters that a scope has processed. A parameter of several optimizers is processed once. */
using Seen = std::unordered_set<const TensorImpl*>;

/** The unscaling of one gradient: out = a x + b y. */
struct UnscaleWork {
  optim::AxpbyTensors tensors;
  optim::Factor a, b;
  bool fresh;  // x is a new gradient, to be checked for infinities and NaNs
};

/** The loss scale of a scope, on the host or on the device. */
struct ScopeScale {
  double of_host = 1;
  Tensor of_device = {};      // f64, one element; if defined, it replaces of_host
  optim::Factor inverse = 1;  // 1 / scale
};

/** The mixed-precision state of one optimizer in a session. */
class MZ_API AmpOptimizerState final : public optim::OptimizerHooks,
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
    double scale;
  };
  std::optional<Pending> pending;
  bool in_scope = false;
  bool unstepped = false;           // no step() or zero_grad() since the last scope
  std::exception_ptr stored_error;  // from the end of a scope; the next step rethrows it

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
    merge_.reset();
  }
  /** Drops the new gradients and restores the stashed ones. */
  void roll_back(Seen& seen);
  /** Makes the next step skip because of an overflow in this loss. */
  void skip_next_step(int loss_id) {
    if (!skip_) skip_ = loss_id;
  }
  bool will_skip() const { return skip_.has_value(); }

  // ---- deferred steps ---------------------------------------------------------------------------
  /** Returns true if masters get no gradients: the parameters' gradients stay scaled until the
   *  step. */
  bool keeps_gradients_scaled() const;
  /** Returns the flag in device memory that is non-zero if the next step must be skipped. */
  const FoundInf& skip_flag(Device device);
  /** The loss whose scope may have raised skip_flag() since the last step. */
  std::optional<int> flagged;
  /** Steps without waiting for the device; see amp::step_deferred. */
  void step_deferred(const optim::StepOptions& options);
  /** Returns the result of the latest step. Waits for the device if that step was deferred.
   *  Errors: DivergenceError. */
  optim::StepResult last_verdict();
  /** Drops all state that is pending for a step: scaled gradients, a skip, an error. */
  void forget_iteration();

  // ---- masters ----------------------------------------------------------------------------------
  /** Creates masters for the 16-bit parameters of `slots` that require or have gradients. Their
   *  values come from `conversion`, if it holds the parameter's value before it became 16-bit. */
  void create_masters(std::span<optim::Slot> slots, MasterChanges& changes,
                      const class Conversion* conversion = nullptr) const;
  /** Creates the master of a 16-bit parameter, even if it requires no gradient. */
  void create_master(optim::Slot& slot, MasterChanges& changes,
                     const class Conversion* conversion = nullptr) const;
  /** Creates missing masters of all slots and updates those whose parameters were written to.
   *  `changes` takes effect when it is committed. */
  void bring_masters_up_to_date(MasterChanges& changes) const;
  void bring_masters_up_to_date();
  void drop_masters_gradients();
  /** Records that all parameters are roundings of their masters. */
  void masters_in_step();

  // ---- optim::OptimizerHooks --------------------------------------------------------------------
  std::optional<optim::StepResult> before_step(optim::Optimizer& optimizer,
                                               optim::UpdateCall& call) override;
  void after_step(optim::Optimizer& optimizer, optim::StepResult result) override;
  void after_zero_grad(optim::Optimizer& optimizer) override;
  void before_add(optim::Optimizer& optimizer, std::span<optim::Slot> slots) override;
  void before_replay(optim::Optimizer& optimizer) override;
  void capture_abandoned(optim::Optimizer& optimizer) noexcept override;
  void after_replay(optim::Optimizer& optimizer) override;
  void detached(optim::Optimizer& optimizer) noexcept override;

 private:
  template <class F> void each_slot(const F& f) const;
  void collect_for_master(const optim::Slot& slot, std::uint32_t number,
                          const optim::Factor& inverse, std::vector<UnscaleWork>& work);
  void collect_in_place(const Tensor& param, std::uint32_t number, const optim::Factor& new_factor,
                        const optim::Factor& old_factor, std::vector<UnscaleWork>& work);
  /** Returns true for a 16-bit parameter that is updated through its master. */
  static bool through_master(const optim::Slot& slot) { return slot.master.defined(); }
  void refuse_unfit_step() const;
  void refuse_gradients_without_scope() const;
  optim::StepResult skip();
  void report_divergence();
  void make_flags(Device device);
  void read_flag();
  void watch();
  void report_skips(std::int64_t skips);

  std::shared_ptr<SessionCore> core_;
  optim::Optimizer* optimizer_;  // null after it was destroyed
  std::size_t index_;
  std::optional<int> skip_;    // the loss whose overflow makes the next step skip
  int last_skip_ = 0;          // the loss of the latest skip
  FoundInf skip_flag_;         // 0 between a deferred step and the next scope
  bool is_deferring_ = false;  // a deferred step is running
  SkipWatch watch_;
  /** The scale of gradients that stay scaled until the step. */
  struct HeldScale {
    double of_host = 1;
    Tensor of_device = {};           // f64, one element; if defined, it replaces of_host
    bool of_this_iteration = false;  // set by a scope since the last step

    double read() const { return of_device.defined() ? of_device.item<double>() : of_host; }
    optim::Factor inverse() const {
      return of_device.defined() ? optim::Factor::over(1, of_device.data<double>()) : 1 / of_host;
    }
  };
  /** Factors that bring new and earlier gradients to one common scale. */
  struct MergeFactors {
    HeldScale held;  // the common scale
    optim::Factor of_new, of_old;
    std::vector<Tensor> operands = {};  // keep the memory alive that the factors point to
  };
  MergeFactors merge_factors(const ScopeScale& scale) const;
  HeldScale held_;
  std::optional<MergeFactors> merge_;  // set by collect(), used by finish()
  std::vector<Tensor> entered_;        // parameters whose gradients enter() removes
  // Gradients from before the scope, by parameter.
  std::unordered_map<const TensorImpl*, Tensor> stash_;
  // Parameters or masters with their unscaled gradients.
  std::vector<std::pair<Tensor, Tensor>> new_gradients_;
};

}  // namespace mezzo::amp
