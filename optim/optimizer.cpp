#include "optimizer.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "../autograd/gradient_mark.h"
#include "../autograd/gradient_receiver.h"
#include "../tensor/core/dispatch.h"
#include "../tensor/ops/create.h"
#include "../tensor/text/text.h"
#include "late_leaves.h"
#include "scaled_gradients.h"
#include "step/step_state.h"

namespace mezzo::optim {

Optimizer::Optimizer() : step_state_(std::make_shared<StepState>(*this)) {}

Optimizer::~Optimizer() {
  attach(nullptr);
  for (const Slot& slot : slots_) release_leaves({&slot.param, 1});
  if (gradient_transform_) gradient_transform_->detached();
  step_state_->detach();
}

void Optimizer::attach(std::shared_ptr<OptimizerHooks> hooks) {
  const std::shared_ptr<OptimizerHooks> former = std::exchange(hooks_, std::move(hooks));
  if (former) former->detached(*this);
}

void Optimizer::refuse_closure(std::string_view op) const {
  if (takes_closure())
    fail<ValueError>(op, {.what = str("the step of ", type_name(), " takes a closure"),
                          .expected = "an optimizer that steps once for each backward",
                          .hint = "call its step(closure), without mixed precision"});
}

void Optimizer::set_gradient_transform(GradientTransform* transform) {
  if (transform) refuse_closure("LARC");
  if (transform && gradient_transform_)
    fail<StateError>(type_name(), {.what = "this optimizer has a gradient transform already",
                                   .hint = "one LARC per optimizer"});
  gradient_transform_ = transform;
}

// ---- groups -------------------------------------------------------------------------------------

namespace {

void check_parameter(const Tensor& x, std::size_t position) {
  const std::string where = str("parameter ", position, " of the group");
  if (!x.defined())
    fail<ValueError>("add_param_group", {.what = where + " is undefined", .expected = "a tensor"});
  if (!is_floating(x.dtype()))
    fail<DtypeError>(
        "add_param_group",
        {.what = where + " cannot have a gradient", .got = str(x), .expected = "a floating dtype"});
  if (!x.is_leaf())
    fail<StateError>("add_param_group", {.what = where + " is the result of an operation",
                                         .got = str(x),
                                         .expected = "a leaf",
                                         .hint = "pass the model's parameter, or x.detach()"});
}

}  // namespace

void Optimizer::add_slots(std::span<const Tensor> params) {
  std::unordered_set<const TensorImpl*> owned;
  for (const Slot& slot : slots_) owned.insert({slot.param.impl(), slot.target().impl()});
  std::unordered_set<const TensorImpl*> added;
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < params.size(); ++i) {
    check_parameter(params[i], i);
    if (owned.count(params[i].impl()) > 0)
      fail<ValueError>("add_param_group",
                       {.what = str("parameter ", i, " belongs to another group already"),
                        .got = str(params[i])});
    if (!added.insert(params[i].impl()).second)
      fail<ValueError>("add_param_group", {.what = str("parameter ", i, " is in the group twice"),
                                           .got = str(params[i])});
    slots.push_back({.param = params[i]});
  }
  slots_.reserve(slots_.size() + slots.size());  // nothing may fail after before_add()
  ends_.reserve(ends_.size() + 1);
  hold_leaves(params);
  try {
    if (hooks_) hooks_->before_add(*this, slots);
  } catch (...) {
    release_leaves(params);
    throw;
  }
  slots_.insert(slots_.end(), std::make_move_iterator(slots.begin()),
                std::make_move_iterator(slots.end()));
  ends_.push_back(slots_.size());
}

void Optimizer::require_parameters() const {
  if (!slots_.empty()) return;
  fail<ValueError>(type_name(), {.what = "there are no parameters",
                                 .got = "an empty list",
                                 .expected = "the parameters of a model: model.parameters()",
                                 .hint = "were its layers added, by add(\"name\", ...)?"});
}

void Optimizer::require_late_parameters() const {
  std::unordered_set<const TensorImpl*> own;
  for (const Slot& slot : slots_) own.insert(slot.param.impl());
  for (const LateLeaf& late :
       late_leaves([&](const Tensor& leaf) { return own.count(leaf.impl()) > 0; }))
    if (late.leaf.requires_grad() && late.leaf.grad().defined())
      fail<StateError>(
          str(type_name(), ".step"),
          {.what = "a parameter has a gradient but is in no optimizer",
           .got = str("\"", late.name, "\" ", late.leaf, ", from ", late.call,
                      "() after the optimizer was made"),
           .expected = "an optimizer over the net as it is now",
           .hint = "make the optimizer later, or call add_param_group() with the new parameters"});
}

std::vector<Tensor> Optimizer::params() const {
  std::vector<Tensor> out;
  for (const Slot& slot : slots_) out.push_back(slot.target());
  return out;
}

std::span<Slot> Optimizer::slots() { return slots_; }
std::span<const Slot> Optimizer::slots() const { return slots_; }
std::span<Slot> Optimizer::slots(std::size_t group) {
  return slots().first(ends_[group]).subspan(begin_of(group));
}
std::span<const Slot> Optimizer::slots(std::size_t group) const {
  return slots().first(ends_[group]).subspan(begin_of(group));
}

double Optimizer::lr(std::size_t group) const {
  if (group >= num_groups())
    fail<IndexError>(
        "lr",
        {.what = "no such group", .got = str(group), .expected = str("below ", num_groups())});
  return const_cast<Optimizer*>(this)->group_lr(group);
}

void Optimizer::set_lr(double value, std::size_t group) {
  if (!std::isfinite(value) || value < 0)
    fail<ValueError>(
        "set_lr", {.what = "the learning rate must be finite and non-negative", .got = str(value)});
  (void)lr(group);
  group_lr(group) = value;
}

void Optimizer::set_lr(double value) {
  for (std::size_t group = 0; group < num_groups(); ++group) set_lr(value, group);
}

// ---- gradients ----------------------------------------------------------------------------------

void Optimizer::add_step_hook(std::weak_ptr<StepHook> hook) {
  step_hooks_.push_back(std::move(hook));
}

void Optimizer::sync_to_host() const { step_state_->sync_to_host(); }

void Optimizer::zero_grad(bool set_to_none) {
  const TraceRange range("zero_grad");
  zero_gradients(
      [this](const auto& f) {
        for (const Slot& slot : slots_) f(slot.param);
      },
      set_to_none);
  if (hooks_) hooks_->after_zero_grad(*this);
}

// ---- the step -----------------------------------------------------------------------------------

namespace {

/** Allocates one state, filled with zeros. */
Tensor new_state(const Tensor& target, const StateSpec& spec, DType dtype) {
  const Tensor state =
      empty_tensor(spec.shape_for(target.shape()), dtype, target.device(), false,
                   spec.follows_format() ? target.memory_format() : MemoryFormat::contiguous);
  state.fill_(0);
  state.impl()->storage->set_category(MemoryCategory::optimizer_state);
  return state;
}

/** Returns true if the slot has all states in `kept`, a bit for each. */
bool has_states(const Slot& slot, unsigned kept) {
  for (std::size_t i = 0; i < slot.state.size(); ++i)
    if ((kept >> i & 1u) != 0 && !slot.state[i].defined()) return false;
  return true;
}

}  // namespace

bool StateSpec::applies_to(const Shape& param) const {
  switch (extent) {
    case StateExtent::element:
    case StateExtent::tensor: return true;
    case StateExtent::row:
    case StateExtent::column: return param.rank() >= 2;
    case StateExtent::vector_element: return param.rank() < 2;
  }
  return true;
}

Shape StateSpec::shape_for(const Shape& param) const {
  if (extent == StateExtent::tensor) return {};
  Shape shape = param;
  if (extent == StateExtent::row) shape[shape.rank() - 1] = 1;
  if (extent == StateExtent::column) shape[shape.rank() - 2] = 1;
  return shape;
}

unsigned Optimizer::states_of(std::size_t group, const Slot& slot) const {
  unsigned kept = kept_states(group);
  for (std::size_t i = 0; i < states().size(); ++i)
    if (!states()[i].applies_to(slot.param.shape())) kept &= ~(1u << i);
  return kept;
}

Tensor Optimizer::gradient_of(const Slot& slot) const { return slot.target().grad(); }

ParamUpdate Optimizer::prepare(std::size_t group, std::size_t index, Tensor gradient) {
  Slot& slot = slots_[index];
  const Tensor& target = slot.target();
  ParamUpdate update{
      .slot = &slot, .group = group, .index = index, .tensors = {target, std::move(gradient)}};
  const Tensor& grad = update.tensors[kGrad];
  if (!(grad.shape() == target.shape()) || grad.device() != target.device())
    fail<ShapeError>(str(type_name(), ".step"),
                     {.what = str("the gradient of parameter ", index - begin_of(group),
                                  " of group ", group, " does not fit it"),
                      .got = str(grad, " for ", target),
                      .expected = "one shape and device",
                      .hint = "move the model first, then make the optimizer"});
  if (slot.master.defined())
    update.tensors[kLowCopy] = slot.param;
  else if (hooks_)
    update.tensors[kLowCopy] = hooks_->low_copy(slot.param);
  std::copy(slot.state.begin(), slot.state.end(), update.tensors.begin() + kState);
  const unsigned kept = states_of(group, slot);
  if (kept == 0) return update;
  const DType dtype = compute_dtype(target.dtype());
  update.fresh = std::none_of(slot.state.begin(), slot.state.end(),
                              [](const Tensor& state) { return state.defined(); });
  for (std::size_t i = 0; i < states().size(); ++i) {
    if ((kept >> i & 1u) == 0) continue;
    Tensor& state = update.tensors[kState + i];
    if (!state.defined())
      state = new_state(target, states()[i], dtype);
    else if (state.dtype() != dtype || state.device() != target.device())
      state = state.to(target.device()).to(dtype);  // the model was moved or converted
    if (states()[i].follows_format() && !same_dense_layout(state, target))
      state = state.to(target.memory_format());
  }
  return update;
}

std::vector<ParamUpdate> Optimizer::collect(std::string_view op) {
  std::vector<ParamUpdate> updates;
  updates.reserve(slots_.size());
  for (std::size_t group = 0; group < num_groups(); ++group)
    for (std::size_t i = begin_of(group); i < ends_[group]; ++i) {
      const Slot& slot = slots_[i];
      Tensor grad = gradient_of(slot);
      if (!grad.defined()) continue;
      require_reduced(slot.param, type_name(), "leave no_sync before the last backward");
      if (!slot.master.defined()) require_unscaled_gradient(slot.param, op);
      updates.push_back(prepare(group, i, std::move(grad)));
    }
  return updates;
}

namespace {

/** Lets an update read and unscale gradients that are still scaled, if all are of one scope. Others
 *  are written when their memory is first used. */
class ScaledReads {
 public:
  ScaledReads(std::span<ParamUpdate> updates, UpdateCall& call) {
    if (call.write_back) return;
    const LateGradients* scope = nullptr;
    std::vector<std::shared_ptr<LateGradient>> late;
    for (const ParamUpdate& u : updates) {
      if (u.tensors[kGrad].numel() == 0) continue;
      std::shared_ptr<LateGradient> one = LateGradient::of(u.tensors[kGrad]);
      if (!one || (scope && scope != &one->scope())) return;
      scope = &one->scope();
      late.push_back(std::move(one));
    }
    const std::optional<Factor> factor = scope ? scope->factor() : std::nullopt;
    if (!factor) return;
    call.inv_scale = *factor;
    late_ = std::move(late);
    auto next = late_.begin();
    for (ParamUpdate& u : updates)
      if (Tensor& grad = u.tensors[kGrad]; grad.numel() > 0) grad = (*next++)->open(grad);
  }
  ~ScaledReads() {
    for (const auto& late : late_) late->close();
  }
  ScaledReads(const ScaledReads&) = delete;
  ScaledReads& operator=(const ScaledReads&) = delete;

 private:
  std::vector<std::shared_ptr<LateGradient>> late_;
};

}  // namespace

StepResult Optimizer::update_parameters(std::string_view op, const StepOptions& options,
                                        const FoundInf& found_inf) {
  const NoGradNoCasts plain_ops;
  std::vector<ParamUpdate> updates = collect(op);
  if (updates.empty()) {
    if (!any_slot(*this, [](const Slot& slot) { return slot.param.requires_grad(); }))
      return StepResult::no_grads;
    fail<StateError>(
        op, {.what = "no parameter has a gradient",
             .got = str("0 gradients for parameters: ", params().size()),
             .expected = "a backward pass before the step",
             .hint = hooks_ ? "run it inside amp::scale_loss, after zero_grad() and before step()"
                            : "call loss.backward() after zero_grad() and before step()"});
  }
  UpdateCall call{.inv_scale = options.inv_scale,
                  .found_inf = found_inf.data(),
                  .write_back = options.inv_scale != 1};
  const ScaledReads scaled_reads(updates, call);
  step_state_->start(updates);
  Tensor norm;
  if (options.max_norm) {
    std::vector<Tensor> grads;
    for (const ParamUpdate& u : updates) grads.push_back(u.tensors[kGrad]);
    norm = clip_by_norm(grads, *options.max_norm, call.inv_scale);
  }
  StepEnd end = step_state_->end(found_inf);
  if (step_state_->device() != cpu) call.end = &end;
  if (call.end && hooks_) hooks_->before_end(end);
  const auto update_all = [&] { update(updates, call); };
  if (gradient_transform_)
    gradient_transform_->around(*this, updates, call, update_all);
  else
    update_all();
  for (const ParamUpdate& done : updates)
    for (std::size_t i = 0; i < kMaxStates; ++i)
      if (Tensor& state = done.slot->state[i]; !state.is_same(done.tensors[kState + i]))
        state = done.tensors[kState + i];
  const std::int64_t steps = step_state_->count(updates);
  if (found_inf.word.defined()) return StepResult(step_state_, steps);
  return StepResult::stepped;
}

/** Returns true if an update on the device can be made to depend on a flag there: all states exist,
 *  and all gradients are on the device. */
bool Optimizer::device_can_decide(Device device) const {
  bool any = false;
  for (std::size_t group = 0; group < num_groups(); ++group)
    for (const Slot& slot : slots(group)) {
      const Tensor grad = gradient_of(slot);
      if (!grad.defined()) continue;
      any = true;
      if (grad.device() != device || !has_states(slot, states_of(group, slot))) return false;
    }
  return any;
}

bool Optimizer::skips_now(FoundInf& found_inf) const {
  const Tensor& flag = found_inf.word;
  if (!flag.defined()) return false;
  if (flag.device() != cpu) {
    const bool can_decide = device_can_decide(flag.device());
    Capture::require_prepared(str(type_name(), ".step"), can_decide,
                              "the optimizer takes its first step");
    if (can_decide) return false;
  }
  if (found_inf.raised()) return true;
  found_inf = {};
  return false;
}

template <class F> void Optimizer::for_each_step_hook(const F& f) {
  bool any_expired = false;
  for (const std::weak_ptr<StepHook>& hook : step_hooks_)
    if (const std::shared_ptr<StepHook> alive = hook.lock())
      f(*alive);
    else
      any_expired = true;
  if (any_expired) std::erase_if(step_hooks_, [](const auto& hook) { return hook.expired(); });
}

StepResult Optimizer::step(const StepOptions& options, const FoundInf& flag) {
  const std::string op = str(type_name(), ".step");
  const TraceRange range(op);
  refuse_closure(op);
  if (late_leaves_exist()) require_late_parameters();
  if (options.max_norm && !(*options.max_norm >= 0))
    fail<ValueError>(op, {.what = "max_norm must not be negative", .got = str(*options.max_norm)});
  const std::shared_ptr<OptimizerHooks> hooks = hooks_;
  FoundInf found_inf = flag;
  std::optional<StepResult> result;
  if (hooks) result = hooks->before_step(*this, found_inf);
  if (!result && skips_now(found_inf)) result = StepResult::skipped;
  const bool skips = result.has_value() && *result == StepResult::skipped;
  for_each_step_hook([&](StepHook& hook) { hook.before_update(*this, options.inv_scale, skips); });
  if (const Capture* const capture = Capture::current(); capture && !result)
    Capture::require_prepared(op, device_can_decide(capture->device()),
                              "the optimizer takes its first step");
  if (!result)
    result = update_parameters(op, options, found_inf);
  else if (*result != StepResult::no_grads)
    step_state_->count_on_host(skips);
  const bool deferred = !result->is_known();
  if (!deferred) last_result_ = *result;
  if (hooks) hooks->after_step(*this, *result);
  step_state_->finish(deferred);
  for_each_step_hook([&](StepHook& hook) { hook.after_step(*this, *result); });
  return *result;
}

void Optimizer::begin_step() {
  if (late_leaves_exist()) require_late_parameters();
  for_each_step_hook([&](StepHook& hook) { hook.before_update(*this, 1, false); });
}

void Optimizer::end_step() {
  step_state_->count_on_host(false);
  for (Slot& slot : slots_) ++slot.steps;
  last_result_ = StepResult::stepped;
  step_state_->finish(false);
  for_each_step_hook([&](StepHook& hook) { hook.after_step(*this, StepResult::stepped); });
}

StepResult Optimizer::last_result() const {
  sync_to_host();
  return last_result_;
}

std::int64_t Optimizer::consecutive_skips() const {
  sync_to_host();
  return step_state_->record().consecutive_skips;
}

void Optimizer::written() {
  const auto note = [](const Tensor& x) {
    if (x.defined()) x.impl()->storage->bump_version();
  };
  for (const Slot& slot : slots_) {
    note(slot.param);
    note(slot.master);
    for (const Tensor& state : slot.state) note(state);
  }
}

}  // namespace mezzo::optim
