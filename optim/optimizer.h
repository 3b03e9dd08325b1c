// Optimizer: parameters in groups, their gradients, their state; and the seams through which mixed precision takes part.
// Sees: tensor, autograd.
// Read next: optimizer_of.h (what a concrete optimizer adds), sgd.h, adam.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "multi_tensor.h"
#include "state_dict.h"
#include "step_clock.h"
#include "update_settings.h"

namespace mezzo::optim {

class Optimizer;

/** What a step did. */
enum class StepResult : std::uint8_t {
  stepped,
  skipped,   // mixed precision found an overflow and left everything as it was
  no_grads,  // there was nothing to do
};

MZ_API std::string_view name(StepResult result);

/** A parameter and what an optimizer keeps for it. */
struct MZ_API Slot {
  Tensor param;        // as the model holds it
  Tensor master = {};  // its f32 twin, updated in its place; undefined without mixed precision
  std::array<Tensor, kMaxStates> state = {};  // f32, f64 for f64; undefined before the first update
  std::int64_t steps = 0;                     // updates so far

  /** The tensor whose gradient is read and whose value is updated. */
  const Tensor& target() const { return master.defined() ? master : param; }
};

/** What an optimizer keeps for each parameter, beside its count of steps. */
struct StateSpec {
  std::string_view name;    // as in state_dict, e.g. "exp_avg"
  bool per_tensor = false;  // one number for the whole tensor instead of one per element
};

/** A parameter about to be updated. */
struct MZ_API ParamUpdate {
  Slot* slot;
  std::size_t group;
  Tensor grad;
  std::array<Tensor, kMaxStates> state;  // the slot's, or new ones
  bool fresh = false;                    // new ones
  std::size_t index = 0;                 // in its group
  DeviceTime time = {};                  // of a step that nobody waits for
};

/** Runs around the updates of an optimizer and may give them other gradients; LARC is one. */
class MZ_API GradientRule {
 public:
  virtual ~GradientRule() = default;
  /** Calls `update` once, after it has changed what it wants to change; gradients in `updates` are still to be multiplied by call.inv_scale. */
  virtual void around(Optimizer& optimizer, std::span<ParamUpdate> updates, UpdateCall& call,
                      const std::function<void()>& update) = 0;
  /** The optimizer ends. */
  virtual void detached() noexcept = 0;
};

struct StepOptions {
  std::optional<double> max_norm =
      {};  // gradients are clipped, as one vector, to this L2 norm on their way into the update
  double inv_scale =
      1;  // gradients are multiplied by it first and left so: how GradScaler unscales in the same pass
};

/** What decides on the device over a step that nobody waits for. */
struct Deferral {
  Tensor found_inf =
      {};  // f32, one element, on the device of the parameters: where it is not 0 the step is skipped
  const double* scale = nullptr;  // on that device: gradients are divided by it first, and left so
  std::int64_t skip_limit = 0;    // so many skips in a row count as a divergence; 0: none
};

/** Takes part in what an optimizer does: mixed precision keeps masters, skips steps and holds gradients back through this. */
class MZ_API Attachment {
 public:
  virtual ~Attachment() = default;
  /** Before a step has read anything; a value ends the step with that verdict. May set what gradients are multiplied by. May throw. */
  virtual std::optional<StepResult> before_step(Optimizer& optimizer, UpdateCall& call) = 0;
  /** After a step; one that nobody waits for counts as stepped. May throw, which undoes nothing. */
  virtual void after_step(Optimizer& optimizer, StepResult result) = 0;
  virtual void after_zero_grad(Optimizer& optimizer) = 0;
  /** Before `slots` join the optimizer as its last group; may give them masters, may throw. */
  virtual void before_add(Optimizer& optimizer, std::span<Slot> slots) = 0;
  /** After a state_dict was loaded. */
  virtual void after_load(Optimizer& optimizer) = 0;
  /** Before and after a captured step that updates this optimizer is replayed. */
  virtual void before_replay(Optimizer&) {}
  virtual void after_replay(Optimizer&) {}
  /** A capture in which it took part came to nothing. */
  virtual void capture_abandoned(Optimizer&) noexcept {}
  /** The optimizer ends, or the attachment is taken off. */
  virtual void detached(Optimizer& optimizer) noexcept = 0;
};

/** Updates parameters from their gradients. State is created at a parameter's first update and never lower than f32. Not copyable and not
 *  movable: schedules and sessions refer to it. */
class MZ_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /** Updates every parameter that has a gradient, in one pass over memory. Gradients stay as they are, unless options say otherwise. In a captured
   *  step counts and learning rates are the device's, so that each replay is a step of its own.
   *  Errors: StateError when parameters want gradients and none has one (step before backward); ShapeError, DtypeError, DeviceError where a
   *  gradient does not fit its parameter; ValueError for a negative max_norm. Nothing has changed then. */
  StepResult step(const StepOptions& options = {});

  /** Removes the gradients of all parameters, or fills them with zeros. */
  void zero_grad(bool set_to_none = true);

  /** "Adam" and the like. */
  virtual std::string_view type_name() const = 0;

  std::size_t num_groups() const { return groups_.size(); }
  /** Learning rate of a group. Errors: IndexError. */
  double lr(std::size_t group = 0) const;
  /** Errors: IndexError; ValueError unless finite and not negative. */
  void set_lr(double lr, std::size_t group);
  /** For every group. */
  void set_lr(double lr);
  /** The tensors that are updated, group by group: the parameters, or their masters under mixed precision. */
  std::vector<Tensor> params() const;
  /** How many steps in a row were skipped; no_grads leaves the count alone. */
  std::int64_t consecutive_skips() const;
  void set_consecutive_skips(std::int64_t count);
  /** A step was skipped from outside. */
  void note_skip();

  /** Options, state, masters and counters, keyed by `names` of the parameters where given, else by their positions.
   *  Errors: ValueError when a parameter has no name. */
  StateDict state_dict(const Names& names = {}) const;
  /** Takes over a saved state; keys as in state_dict. State is raised to f32 where it is lower. A saved master replaces the present one only
   *  when it rounds to the present parameter; else the parameter is right, and a warning names it.
   *  Errors: ValueError that lists missing, unexpected and unfitting entries; nothing has changed then. */
  void load_state_dict(const StateDict& saved, const Names& names = {});
  /** The load, checked and prepared: the function that it returns makes it and needs no memory.
   *  `incoming` are values that parameters will hold by then: saved masters are compared with
   *  those. */
  std::function<void()> stage_state_dict(const StateDict& saved, const Names& names = {},
                                         std::span<const std::pair<Tensor, Tensor>> incoming = {});
  /** Throws what load_state_dict would, and changes nothing. */
  void check_state_dict(const StateDict& saved, const Names& names = {});

  // ---- steps that nobody waits for ----------------------------------------------------------------------------------------
  /** Whether a step can be left to the device: all states exist, and all that has a gradient is on one device. */
  bool can_defer() const;
  /** As step(), decided on the device; the host keeps going. Errors: as step(), StateError where can_defer() is false. */
  void step_deferred(const StepOptions& options, const Deferral& deferral);
  /** What the latest step did, unless it was none: waits for the device where it was left to it. */
  StepResult last_result() const;
  /** Brings counts of steps and skips up to date on the host. Waits for the device where steps were left to it. */
  void settle() const { clock_->settle(); }
  StepClock& clock() const { return *clock_; }

  // ---- for mixed precision ----------------------------------------------------------------------------------------------
  std::span<Slot> slots(std::size_t group) { return groups_[group]; }
  std::span<const Slot> slots(std::size_t group) const { return groups_[group]; }
  Attachment* attachment() const { return attachment_.get(); }
  /** Puts an attachment in place, or takes it off with null; the former one is told. */
  void attach(std::shared_ptr<Attachment> attachment);
  /** The kernels of this optimizer unscale gradients themselves, so GradScaler need not: it may also hand over f16 ones. */
  virtual bool unscales_itself() const { return false; }
  /** False where gradients of 16-bit parameters are read, still scaled, instead of copied to their masters first. */
  virtual bool materializes_master_grads() const { return true; }
  /** Puts a rule around the updates, or takes it off with null. Errors: StateError where another one is in place. */
  void set_gradient_rule(GradientRule* rule);
  /** Runs `visit` with the name and value of each option of a group and adopts the values it returns. Errors: ValueError; nothing has
   *  changed then. */
  void change_options(std::size_t group,
                      const std::function<double(std::string_view name, double value)>& visit) {
    visit_options(group, visit, true);
  }

 protected:
  Optimizer() = default;

  /** Gives the value an option is to have, from its name and the value it has. */
  using OptionVisitor = std::function<double(std::string_view name, double value)>;

  /** Adds a group; the derived class has checked its options. Errors: as add_param_group (optimizer_of.h); nothing has changed then. */
  void add_slots(std::span<const Tensor> params);
  virtual double& group_lr(std::size_t group) = 0;
  virtual std::span<const StateSpec> states() const = 0;
  /** False where the group's options need no state. */
  virtual bool keeps_state(std::size_t group) const = 0;
  virtual void update(std::span<const ParamUpdate> updates, const UpdateCall& call) = 0;
  /** What the running means of a group keep, where they are corrected for having started at 0; {0, 0} elsewhere. */
  virtual std::pair<double, double> corrected_betas(std::size_t group) const = 0;
  /** Visits the options of a group by name, checks the values the visitor gave, and adopts them if `apply`. Errors: ValueError. */
  virtual void visit_options(std::size_t group, const OptionVisitor& visit, bool apply) = 0;

 private:
  friend class StateLoad;
  friend class StepClock;
  std::vector<ParamUpdate> collect();
  Tensor gradient_of(const Slot& slot) const;
  ParamUpdate prepare(std::size_t group, std::size_t index, const Tensor& grad);
  bool anyone_wants_gradient() const;
  StepResult run_step(const StepOptions& options, const Deferral* deferral);
  StepResult update_parameters(UpdateCall call, const StepOptions& options, const Deferral* deferral);
  /** A replay has written all parameters and states. */
  void written();

  std::vector<std::vector<Slot>> groups_;
  std::shared_ptr<Attachment> attachment_;
  GradientRule* gradient_rule_ = nullptr;
  std::int64_t consecutive_skips_ = 0;
  StepResult last_result_ = StepResult::no_grads;
  std::shared_ptr<StepClock> clock_ = std::make_shared<StepClock>(*this);
};

}  // namespace mezzo::optim
