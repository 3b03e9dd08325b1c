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

/** Takes part in what an optimizer does: mixed precision keeps masters, skips steps and holds gradients back through this. */
class MZ_API Attachment {
 public:
  virtual ~Attachment() = default;
  /** Before a step has read anything; a value ends the step with that verdict. May throw. */
  virtual std::optional<StepResult> before_step(Optimizer& optimizer) = 0;
  /** After a step. May throw, which undoes nothing. */
  virtual void after_step(Optimizer& optimizer, StepResult result) = 0;
  virtual void after_zero_grad(Optimizer& optimizer) = 0;
  /** Before `slots` join the optimizer as its last group; may give them masters, may throw. */
  virtual void before_add(Optimizer& optimizer, std::span<Slot> slots) = 0;
  /** After a state_dict was loaded. */
  virtual void after_load(Optimizer& optimizer) = 0;
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

  /** Updates every parameter that has a gradient, in one pass over memory. Gradients stay as they are.
   *  Errors: StateError when parameters want gradients and none has one (step before backward); ShapeError, DtypeError, DeviceError where a
   *  gradient does not fit its parameter. Nothing has changed then. */
  StepResult step();

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
  std::int64_t consecutive_skips() const { return consecutive_skips_; }
  void set_consecutive_skips(std::int64_t count) { consecutive_skips_ = count; }

  /** Options, state, masters and counters, keyed by `names` of the parameters where given, else by their positions.
   *  Errors: ValueError when a parameter has no name. */
  StateDict state_dict(const Names& names = {}) const;
  /** Takes over a saved state; keys as in state_dict. State is raised to f32 where it is lower. A saved master replaces the present one only
   *  when it rounds to the present parameter; else the parameter is right, and a warning names it.
   *  Errors: ValueError that lists missing, unexpected and unfitting entries; nothing has changed then. */
  void load_state_dict(const StateDict& saved, const Names& names = {});
  /** Throws what load_state_dict would, and changes nothing. */
  void check_state_dict(const StateDict& saved, const Names& names = {});

  // ---- for mixed precision ----------------------------------------------------------------------------------------------
  std::span<Slot> slots(std::size_t group) { return groups_[group]; }
  std::span<const Slot> slots(std::size_t group) const { return groups_[group]; }
  Attachment* attachment() const { return attachment_.get(); }
  /** Puts an attachment in place, or takes it off with null; the former one is told. */
  void attach(std::shared_ptr<Attachment> attachment);

 protected:
  Optimizer() = default;

  /** A parameter about to be updated. */
  struct Update {
    Slot* slot;
    std::size_t group;
    Tensor grad;
    std::array<Tensor, kMaxStates> state;  // the slot's, or new ones
    bool fresh = false;                    // new ones
  };
  /** Gives the value an option is to have, from its name and the value it has. */
  using OptionVisitor = std::function<double(std::string_view name, double value)>;

  /** Adds a group; the derived class has checked its options. Errors: as add_param_group (optimizer_of.h); nothing has changed then. */
  void add_slots(std::span<const Tensor> params);
  virtual double& group_lr(std::size_t group) = 0;
  /** Names of what is kept per parameter, e.g. "exp_avg". */
  virtual std::span<const std::string_view> state_names() const = 0;
  /** False where the group's options need no state. */
  virtual bool keeps_state(std::size_t group) const = 0;
  virtual void update(std::span<const Update> updates) = 0;
  /** Visits the options of a group by name, checks the values the visitor gave, and adopts them if `apply`. Errors: ValueError. */
  virtual void visit_options(std::size_t group, const OptionVisitor& visit, bool apply) = 0;

 private:
  friend class StateLoad;
  std::vector<Update> collect();
  Update prepare(std::size_t group, std::size_t index);
  bool anyone_wants_gradient() const;
  StepResult update_parameters();

  std::vector<std::vector<Slot>> groups_;
  std::shared_ptr<Attachment> attachment_;
  std::int64_t consecutive_skips_ = 0;
};

}  // namespace mezzo::optim
