// Optimizer: parameters in groups, their gradients and states, and the hooks of mixed precision.
// See also: optimizer_of.h (what a concrete optimizer adds).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "state_dict.h"
#include "step/step_record.h"
#include "step/tensor_list.h"

namespace mezzo::optim {

class Optimizer;
class StepState;

/** A parameter with its master weight and optimizer state. */
struct MZ_API Slot {
  Tensor param;        // as the model holds it
  Tensor master = {};  // f32 master weight, updated instead; undefined without mixed precision
  std::array<Tensor, kMaxStates> state = {};  // f32, f64 for f64; undefined before the first update
  std::int64_t steps = 0;  // updates so far, as of the latest Optimizer::sync_to_host()

  /** The tensor whose gradient is read and whose value is updated. */
  const Tensor& target() const { return master.defined() ? master : param; }
};

/** Which numbers a state has. */
enum class StateExtent : std::uint8_t {
  element,         // one for each element
  tensor,          // one for the whole tensor
  row,             // one for each row of matrices, [..., rows, 1]; none below 2 dimensions
  column,          // one for each column of matrices, [..., 1, columns]; none below 2 dimensions
  vector_element,  // one for each element; none from 2 dimensions on
};

/** One state tensor that an optimizer keeps for each parameter. */
struct MZ_API StateSpec {
  std::string_view name;                      // as in state_dict, e.g. "exp_avg"
  StateExtent extent = StateExtent::element;  // which numbers it has

  /** Returns true if a parameter of this shape has the state. */
  bool applies_to(const Shape& param) const;
  /** Returns the shape of the state of a parameter that has it. */
  Shape shape_for(const Shape& param) const;
  /** Returns true if the state has the memory format of its parameter; others are contiguous. */
  bool follows_format() const {
    return extent == StateExtent::element || extent == StateExtent::vector_element;
  }
};

/** One parameter of an update. */
struct MZ_API ParamUpdate {
  Slot* slot;            // the parameter; never null
  std::size_t group;     // index of its group
  std::size_t index;     // of its slot, over all groups
  TensorTuple tensors;   // as UpdateList; a transform may replace the gradient
  bool fresh = false;    // the states are new
  UpdateTime time = {};  // its rate and counter, on the device of the gradient
};

/** Transforms gradients just before an update, as LARC does. */
class MZ_API GradientTransform {
 public:
  virtual ~GradientTransform() = default;
  /** Changes `updates` and `call`, then calls `update` once. Gradients in `updates` are not yet
   *  multiplied by call.inv_scale. */
  virtual void around(Optimizer& optimizer, std::span<ParamUpdate> updates, UpdateCall& call,
                      const std::function<void()>& update) = 0;
  /** The optimizer is being destroyed. */
  virtual void detached() noexcept = 0;
};

/** Options of Optimizer::step. */
struct StepOptions {
  std::optional<double> max_norm = {};  // clips the gradients, as one vector, to this L2 norm
  Factor inv_scale = 1;  // multiplies the gradients in place first: a number, except in GradScaler
};

/** Hooks of mixed precision into an optimizer: master weights and skipped steps. */
class MZ_API OptimizerHooks {
 public:
  virtual ~OptimizerHooks() = default;
  /** Called first in a step. A value ends the step with that result. May set the flag that skips
   *  the step. May throw. */
  virtual std::optional<StepResult> before_step(Optimizer&, FoundInf& /*found_inf*/) { return {}; }
  /** Returns the 16-bit copy of a parameter without a master that the update shall write too, or an
   *  undefined tensor. Called between before_step and after_step. */
  virtual Tensor low_copy(const Tensor& /*param*/) { return {}; }
  /** Called in a step on a device. May have the update reset the flag, and complete a check, by
   *  changing `end`: the update has done so if after_step follows. May throw. */
  virtual void before_end(StepEnd& /*end*/) {}
  /** Called after a step, whose result may be unknown yet. May throw; the step stays done. */
  virtual void after_step(Optimizer&, const StepResult&) {}
  /** Called on the observer (StepState::observe) when `skips` > 0 more skipped steps have
   * been counted or read from the device. `diverged_after` is the number of consecutive skips that
   * reached the limit; 0 if none did. May throw; the steps stay done. */
  virtual void skips_found(Optimizer&, std::int64_t /*skips*/, std::int64_t /*diverged_after*/) {}
  /** Called after zero_grad() removed the gradients or set them to zero. */
  virtual void after_zero_grad(Optimizer&) {}
  /** Called before `slots` become the last group. May create their master weights. May throw. */
  virtual void before_add(Optimizer&, std::span<Slot>) {}
  /** Called before each replay of a captured step that updates this optimizer. */
  virtual void before_replay(Optimizer&) {}
  /** Called after each replay of a captured step that updates this optimizer. */
  virtual void after_replay(Optimizer&) {}
  /** A capture that includes this optimizer was abandoned. */
  virtual void capture_abandoned(Optimizer&) noexcept {}
  /** The optimizer is being destroyed, or other hooks replace these. */
  virtual void detached(Optimizer&) noexcept {}

  std::int64_t other_skips = 0;  // consecutive ones of an observer, kept while another observes
};

/** Observes the steps of an optimizer; see Optimizer::add_step_hook. */
class MZ_API StepHook {
 public:
  virtual ~StepHook() = default;
  /** Called in a step before anything is updated. The update multiplies the gradients
   *  (Optimizer::gradient_of) by `unscale`. `skips` is true if the host has already read that the
   *  step is skipped. Must not throw. */
  virtual void before_update(Optimizer& optimizer, const Factor& unscale, bool skips) noexcept = 0;
  /** Called at the end of a step. Must not throw. */
  virtual void after_step(Optimizer& optimizer, const StepResult& result) noexcept = 0;
};

/** Updates parameters from their gradients. States are created at a parameter's first update, in
 *  f32, or in f64 for f64 parameters. Neither copyable nor movable: schedules and sessions hold
 *  references to it. */
class MZ_API Optimizer {
 public:
  virtual ~Optimizer();
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /** Updates every parameter that has a gradient, in one pass over memory. Gradients are not
   *  changed, unless options say so. In a captured step, counters and learning rates are read
   *  from device memory, so each replay counts as a step. Under a session of mixed precision the
   *  overflow flag of parameters on a device stays there: the device takes or skips the step, and
   *  the result waits for it when it is looked at. Waits only in the first step, and if gradients
   *  are on several devices. Errors: StateError if parameters require gradients and none has one
   *  (step before backward), and if a parameter that joined the net after the optimizer was made
   * has one and is in no optimizer; ShapeError, DtypeError or DeviceError if a gradient does not
   * match its parameter; ValueError for a negative max_norm; nothing has changed then.
   *  amp::DivergenceError after too many skips: on the CPU at once, on a device when a result is
   *  looked at, at the latest 100 steps after the step that reached the limit
   *  (2 * StepState::kPollSteps). */
  StepResult step(const StepOptions& options = {}) { return step(options, {}); }
  /** As above; a raised flag skips the step. GradScaler steps with it. */
  StepResult step(const StepOptions& options, const FoundInf& found_inf);

  /** Removes the gradients of all parameters, or sets them to zero. */
  void zero_grad(bool set_to_none = true);

  /** Returns the class name, such as "Adam". */
  virtual std::string_view type_name() const = 0;

  /** Returns true if a step calls a closure, as that of LBFGS: it takes no step without. */
  virtual bool takes_closure() const { return false; }
  /** Throws for an optimizer that takes a closure. Errors: ValueError in the name of `op`. */
  void refuse_closure(std::string_view op) const;

  /** Returns the number of parameter groups. */
  std::size_t num_groups() const { return ends_.size(); }
  /** Returns the learning rate of a group. Errors: IndexError. */
  double lr(std::size_t group = 0) const;
  /** Sets the learning rate of a group. Errors: IndexError; ValueError unless finite and
   *  non-negative. */
  void set_lr(double lr, std::size_t group);
  /** Sets the learning rate of every group. Errors: ValueError. */
  void set_lr(double lr);
  /** Returns the tensors that are updated, group by group: the parameters, or their f32 master
   *  weights under mixed precision. */
  std::vector<Tensor> params() const;
  /** Returns the result of the latest step, or of the latest replay of a captured one. Waits for
   *  the device if it is not known. Errors: amp::DivergenceError. */
  StepResult last_result() const;
  /** Adds a hook, which is called in every step until it is destroyed; steps inside replays of
   *  captured steps are not seen. */
  void add_step_hook(std::weak_ptr<StepHook> hook);
  /** Returns the gradient that an update of the slot reads; undefined if there is none. */
  Tensor gradient_of(const Slot& slot) const;
  /** Returns the number of consecutive skipped steps; `no_grads` does not change it. Waits for
   *  the device, as last_result(). */
  std::int64_t consecutive_skips() const;

  /** Returns options, states, master weights and counters, keyed by the parameters' `names` or,
   *  without names, by position. Errors: ValueError if a parameter has no name. */
  virtual StateDict state_dict(const Names& names = {}) const;
  /** Loads a state_dict. States in 16-bit types are converted to f32. A saved master weight is
   *  used only if it rounds to the parameter's present value; otherwise the parameter's value is
   *  kept and a warning names it. Errors: ValueError that lists missing, unexpected and mismatched
   *  entries; nothing has changed then. */
  void load_state_dict(const StateDict& saved, const Names& names = {}) { stage(saved, names)(); }
  /** Checks and converts a state as load_state_dict() does. Returns the load, which allocates
   *  nothing and does not throw. `incoming` holds the values that parameters will have by then;
   *  saved master weights are compared with those. */
  virtual std::function<void()> stage(const StateDict& saved, const Names& names = {},
                                      std::span<const std::pair<Tensor, Tensor>> incoming = {});
  /** Throws what load_state_dict would throw, and changes nothing. */
  void check_state_dict(const StateDict& saved, const Names& names = {}) {
    (void)stage(saved, names);
  }

  // ---- for mixed precision ----------------------------------------------------------------------
  /** Returns true if the step must be skipped, as far as the host can tell: it reads the flag if
   *  that is on the CPU, or if the device cannot decide (before the first update, or if gradients
   *  are not all on the flag's device). Makes a flag undefined that it has read and that is not
   *  raised. Errors: CapturePostponed before the first update. */
  bool skips_now(FoundInf& found_inf) const;
  /** Copies the step and skip counters to the host. Waits for the device if its counters are
   *  newer. */
  void sync_to_host() const;
  /** Returns the counters, learning rates and results in the memory of the device that updates. */
  StepState& step_state() const { return *step_state_; }
  /** Returns the parameters of all groups, one group after the other, with masters and states. */
  std::span<Slot> slots();
  /** As above, read-only. */
  std::span<const Slot> slots() const;
  /** Returns the parameters of a group. Does not check `group`. */
  std::span<Slot> slots(std::size_t group);
  /** As above, read-only. */
  std::span<const Slot> slots(std::size_t group) const;
  /** Returns the hooks; null without mixed precision. */
  OptimizerHooks* hooks() const { return hooks_.get(); }
  /** Sets the hooks, or removes them with null. Calls detached() of the former hooks. */
  void attach(std::shared_ptr<OptimizerHooks> hooks);
  /** Returns true if the update kernels unscale gradients themselves, f16 gradients included. */
  virtual bool unscales_itself() const { return false; }
  /** Sets the gradient transform, or removes it with null. Errors: StateError if another one is
   *  set. */
  void set_gradient_transform(GradientTransform* transform);
  /** Runs `visit` with the name and value of each option of a group and adopts the values it
   *  returns. Errors: ValueError; nothing has changed then. */
  void change_options(std::size_t group,
                      const std::function<double(std::string_view name, double value)>& visit) {
    visit_options(group, visit, true);
  }

 protected:
  Optimizer();

  /** Returns the new value of an option, given its name and present value. */
  using OptionVisitor = std::function<double(std::string_view name, double value)>;

  /** Adds a group; the derived class has checked its options. Errors: as add_param_group
   *  (optimizer_of.h); nothing has changed then. */
  void add_slots(std::span<const Tensor> params);
  /** Throws if all groups are empty, at the end of a constructor. Errors: ValueError. */
  void require_parameters() const;
  /** Returns a reference to the learning rate in a group's options. Does not check `group`. */
  virtual double& group_lr(std::size_t group) = 0;
  /** Returns the states of each parameter, at most kMaxStates, in the order of Slot::state. */
  virtual std::span<const StateSpec> states() const = 0;
  /** Returns which states the group's options need: bit i is set for states()[i]. */
  virtual unsigned kept_states(std::size_t group) const = 0;
  /** Updates the parameters and their states; runs no hooks. On a device the last pass has to get
   *  call.end, which counts the step; earlier ones must not. */
  virtual void update(std::span<const ParamUpdate> updates, const UpdateCall& call) = 0;
  /** Returns the betas of a group's bias-corrected running means; {0, 0} without correction. */
  virtual std::pair<double, double> corrected_betas(std::size_t group) const = 0;
  /** Visits the options of a group by name, checks the values the visitor gave, and adopts them
   *  if `apply`. Errors: ValueError. */
  virtual void visit_options(std::size_t group, const OptionVisitor& visit, bool apply) = 0;

  /** Returns the key of each parameter in a state_dict. Errors: as state_dict. */
  std::vector<std::string> keys_of(const Names& names) const;
  /** Calls the hooks that observe a step, for a derived class with a step of its own. */
  void begin_step();
  /** Counts a step on the host and calls the hooks, at its end. */
  void end_step();

 private:
  friend class StateLoad;
  friend class CapturedSteps;
  friend class StepState;
  std::vector<ParamUpdate> collect(std::string_view op);
  std::size_t begin_of(std::size_t group) const { return group == 0 ? 0 : ends_[group - 1]; }
  ParamUpdate prepare(std::size_t group, std::size_t index, Tensor grad);
  /** Returns the states of a parameter, as kept_states() without those that do not apply to it. */
  unsigned states_of(std::size_t group, const Slot& slot) const;
  void require_late_parameters() const;
  bool device_can_decide(Device device) const;
  StepResult update_parameters(std::string_view op, const StepOptions& options,
                               const FoundInf& found_inf);
  /** Calls f on every living step hook, and removes the others. */
  template <class F> void for_each_step_hook(const F& f);
  /** Bumps the versions of all parameters and states after a replay wrote them. */
  void written();

  std::vector<Slot> slots_;        // of all groups
  std::vector<std::size_t> ends_;  // of each group, in slots_
  std::shared_ptr<OptimizerHooks> hooks_;
  std::vector<std::weak_ptr<StepHook>> step_hooks_;
  GradientTransform* gradient_transform_ = nullptr;
  StepResult::Value last_result_ = StepResult::no_grads;
  std::shared_ptr<StepState> step_state_;  // never null
};

/** Returns true if `accepts` returns true for a slot of the optimizer. */
template <class Accepts> bool any_slot(const Optimizer& optimizer, const Accepts& accepts) {
  for (const Slot& slot : optimizer.slots())
    if (accepts(slot)) return true;
  return false;
}

}  // namespace mezzo::optim
