// OptimizerLink: what a session keeps for one optimizer, and how it takes part in its steps: masters, scaled gradients, skips.
// Sees: session_core.h; optim.
// Read next: optimizer_link.cpp, scale_loss.cpp (who drives it).
#pragma once

#include <exception>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "../optim/optimizer.h"
#include "session_core.h"
#include "skip_watch.h"

namespace mezzo::amp {

/** Parameters already dealt with in a scope: one that several optimizers own is treated once. */
using Seen = std::unordered_set<const TensorImpl*>;

/** One tensor's part in unscaling: out = a x + b y. */
struct UnscaleWork {
  optim::AxpbyTensors tensors;
  optim::Factor a, b;
  bool fresh;  // x is a new gradient, to be looked through for infinities and NaNs
};

/** What a scope's loss was multiplied by, where it is known, and what undoes it. */
struct ScopeScale {
  double of_host = 1;
  Tensor of_device = {};  // f64, one element: the scale, where the host does not know it
  optim::Factor inverse = 1;
};

class MZ_API OptimizerLink final : public optim::Attachment,
                                   public std::enable_shared_from_this<OptimizerLink> {
 public:
  OptimizerLink(std::shared_ptr<SessionCore> core, optim::Optimizer& optimizer);

  /** The link of an optimizer; null where it is attached to no session. */
  static std::shared_ptr<OptimizerLink> of(optim::Optimizer& optimizer);

  const std::shared_ptr<SessionCore>& core() const { return core_; }
  optim::Optimizer* optimizer() const { return optimizer_; }
  std::size_t index() const { return index_; }

  // ---- for scopes (AMP.md 6, 9.2, 9.3) -----------------------------------------------------------------------------------
  /** Gradients that are scaled and wait: by which scaler's scale. */
  struct Pending {
    int loss_id;
    double scale;
  };
  std::optional<Pending> pending;
  bool in_scope = false;
  bool unstepped = false;  // a scope has ended, and neither a step nor zero_grad() has come since
  std::exception_ptr stored_error;

  /** Adds the parameters to `seen`. */
  void mark_seen(Seen& seen) const;
  /** Sets gradients aside, but for those of 16-bit parameters with masters; masters are up
   *  to date. */
  void prepare(Seen& seen);
  /** Removes from the parameters what prepare() has seen. Needs no memory. */
  void enter();
  /** Forgets what prepare() has set aside. */
  void forget_stash() {
    entered_.clear();
    stash_.clear();
  }
  /** Lists what undoing the scale of the new gradients has to do. */
  void collect(Seen& seen, const ScopeScale& scale, std::vector<UnscaleWork>& work);
  /** Makes the results of unscaling the masters' gradients, forgets the stash. */
  void finish();
  /** Forgets what collect() had in mind; gradients stay as they are. */
  void forget_results() {
    new_gradients_.clear();
    merge_.reset();
  }
  /** Drops new gradients and puts the old ones back. */
  void roll_back(Seen& seen);
  void skip_next_step(int loss_id) {
    if (!skip_) skip_ = loss_id;
  }
  bool will_skip() const { return skip_.has_value(); }

  // ---- deferred steps -------------------------------------------------------------------------------------------------------
  /** Masters get no gradients: those of the parameters stay scaled until the step (AMP.md 9.6). */
  bool keeps_gradients_scaled() const;
  /** On its device: not 0 where the next step is to be skipped. */
  const FoundInf& skip_flag(Device device);
  /** A scope may have raised it since the last step, for this loss. */
  std::optional<int> flagged;
  void step_deferred(const optim::StepOptions& options);
  optim::StepResult last_verdict();
  /** Drops whatever waits for a step: scaled gradients, a skip, an error. */
  void forget_iteration();

  // ---- masters ---------------------------------------------------------------------------------------------------------------
  /** Gives masters to the 16-bit parameters of `slots` that want or have gradients. `conversion` knows values from before it, if given. */
  void create_masters(std::span<optim::Slot> slots, MasterChanges& changes,
                      const class Conversion* conversion = nullptr) const;
  /** Gives a 16-bit parameter its master, wanted or not. */
  void create_master(optim::Slot& slot, MasterChanges& changes,
                     const class Conversion* conversion = nullptr) const;
  /** The same for all slots, and for parameters written to since: everything is in step after the
   *  changes are committed. */
  void bring_masters_up_to_date(MasterChanges& changes) const;
  void bring_masters_up_to_date();
  void drop_masters_gradients();
  /** Notes that all parameters are roundings of their masters now. */
  void masters_in_step();

  // ---- optim::Attachment -----------------------------------------------------------------------------------------------------
  std::optional<optim::StepResult> before_step(optim::Optimizer& optimizer, optim::UpdateCall& call) override;
  void after_step(optim::Optimizer& optimizer, optim::StepResult result) override;
  void after_zero_grad(optim::Optimizer& optimizer) override;
  void before_add(optim::Optimizer& optimizer, std::span<optim::Slot> slots) override;
  void after_load(optim::Optimizer& optimizer) override;
  void before_replay(optim::Optimizer& optimizer) override;
  void capture_abandoned(optim::Optimizer& optimizer) noexcept override;
  void after_replay(optim::Optimizer& optimizer) override;
  void detached(optim::Optimizer& optimizer) noexcept override;

 private:
  template <class F> void each_slot(const F& f) const;
  void collect_for_master(const optim::Slot& slot, std::uint32_t number, const optim::Factor& inverse,
                          std::vector<UnscaleWork>& work);
  void collect_in_place(const Tensor& param, std::uint32_t number, const optim::Factor& new_factor,
                        const optim::Factor& old_factor, std::vector<UnscaleWork>& work);
  /** A 16-bit parameter that is updated through its master. */
  static bool through_master(const optim::Slot& slot) { return slot.master.defined(); }
  void refuse_unfit_step() const;
  void refuse_gradients_without_scope() const;
  optim::StepResult skip();
  void report_divergence();
  void make_flags(Device device);
  void read_flag();
  void watch();
  void tell_of_skips(std::int64_t skips);

  std::shared_ptr<SessionCore> core_;
  optim::Optimizer* optimizer_;  // null once it is gone
  std::size_t index_;
  std::optional<int> skip_;    // the loss whose overflow the next step is skipped for
  int last_skip_ = 0;          // the same, of the latest skip
  FoundInf skip_flag_;         // 0 between a deferred step and the next scope
  bool is_deferring_ = false;  // amid a deferred step
  SkipWatch watch_;
  /** The scale of gradients that stay scaled. */
  struct Held {
    double of_host = 1;
    Tensor of_device = {};           // f64, one element: in place of the host's number
    bool of_this_iteration = false;  // a scope since the last step has set it

    double read() const { return of_device.defined() ? of_device.item<double>() : of_host; }
    optim::Factor inverse() const {
      return of_device.defined() ? optim::Factor::over(1, of_device.data<double>()) : 1 / of_host;
    }
  };
  /** How new gradients join those that are held, and what they are held at then (AMP.md 9.6). */
  struct Merge {
    Held held;
    optim::Factor of_new, of_old;
    std::vector<Tensor> operands = {};  // of the factors
  };
  Merge merge_at(const ScopeScale& scale) const;
  Held held_;
  std::optional<Merge> merge_;                            // what collect() has in mind
  std::vector<Tensor> entered_;                           // parameters with gradients that a scope removes
  std::unordered_map<const TensorImpl*, Tensor> stash_;   // gradients from before the scope, by parameter
  std::vector<std::pair<Tensor, Tensor>> new_gradients_;  // parameter or master, its unscaled gradient
};

}  // namespace mezzo::amp
