#include "optimizer.h"

#include <cmath>
#include <unordered_set>

#include "../autograd/grad_mode.h"
#include "../autograd/ops/create.h"
#include "../tensor/text.h"
#include "clip.h"

namespace mezzo::optim {

std::string_view name(StepResult result) {
  switch (result) {
    case StepResult::stepped: return "stepped";
    case StepResult::skipped: return "skipped";
    case StepResult::no_grads: break;
  }
  return "no_grads";
}

Optimizer::~Optimizer() {
  attach(nullptr);
  if (gradient_rule_) gradient_rule_->detached();
}

void Optimizer::attach(std::shared_ptr<Attachment> attachment) {
  const std::shared_ptr<Attachment> former = std::exchange(attachment_, std::move(attachment));
  if (former) former->detached(*this);
}

void Optimizer::set_gradient_rule(GradientRule* rule) {
  if (rule && gradient_rule_)
    fail<StateError>(type_name(), {.what = "another rule shapes the gradients of this optimizer already",
                                   .hint = "one LARC per optimizer"});
  gradient_rule_ = rule;
}

// ---- groups -------------------------------------------------------------------------------------------------------------

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
                                         .hint = "pass what was made by the model, or x.detach()"});
}

}  // namespace

void Optimizer::add_slots(std::span<const Tensor> params) {
  std::unordered_set<const TensorImpl*> owned;
  for (const std::vector<Slot>& group : groups_)
    for (const Slot& slot : group) owned.insert({slot.param.impl(), slot.target().impl()});
  std::unordered_set<const TensorImpl*> added;
  std::vector<Slot> slots;
  for (std::size_t i = 0; i < params.size(); ++i) {
    check_parameter(params[i], i);
    if (owned.count(params[i].impl()) > 0)
      fail<ValueError>("add_param_group", {.what = str("parameter ", i, " belongs to another group already"),
                                           .got = str(params[i])});
    if (!added.insert(params[i].impl()).second)
      fail<ValueError>("add_param_group",
                       {.what = str("parameter ", i, " is in the group twice"), .got = str(params[i])});
    slots.push_back({.param = params[i]});
  }
  groups_.reserve(groups_.size() + 1);  // so that nothing can fail once the attachment has agreed
  if (attachment_) attachment_->before_add(*this, slots);
  groups_.push_back(std::move(slots));
}

std::vector<Tensor> Optimizer::params() const {
  std::vector<Tensor> out;
  for (const std::vector<Slot>& group : groups_)
    for (const Slot& slot : group) out.push_back(slot.target());
  return out;
}

double Optimizer::lr(std::size_t group) const {
  if (group >= groups_.size())
    fail<IndexError>("lr",
                     {.what = "no such group", .got = str(group), .expected = str("below ", groups_.size())});
  return const_cast<Optimizer*>(this)->group_lr(group);
}

void Optimizer::set_lr(double value, std::size_t group) {
  if (!std::isfinite(value) || value < 0)
    fail<ValueError>("set_lr", {.what = "a learning rate is finite and not negative", .got = str(value)});
  (void)lr(group);
  group_lr(group) = value;
}

void Optimizer::set_lr(double value) {
  for (std::size_t group = 0; group < groups_.size(); ++group) set_lr(value, group);
}

// ---- gradients ----------------------------------------------------------------------------------------------------------

namespace {

/** Zeros in the gradient's own memory where that is possible: it may belong to a graph, or repeat one element. */
void zero_gradient(const Tensor& param) {
  const Tensor grad = param.grad();
  if (grad.requires_grad() || !grad.is_contiguous())
    param.set_grad(zeros_like(param));
  else
    grad.zero_();
}

}  // namespace

void Optimizer::zero_grad(bool set_to_none) {
  const NoGrad no_grad;
  const CastScope no_casts(nullptr);
  for (const std::vector<Slot>& group : groups_)
    for (const Slot& slot : group) {
      if (!slot.param.grad().defined()) continue;
      if (set_to_none)
        slot.param.set_grad({});
      else
        zero_gradient(slot.param);
    }
  if (attachment_) attachment_->after_zero_grad(*this);
}

// ---- the step -----------------------------------------------------------------------------------------------------------

bool Optimizer::anyone_wants_gradient() const {
  for (const std::vector<Slot>& group : groups_)
    for (const Slot& slot : group)
      if (slot.param.requires_grad()) return true;
  return false;
}

namespace {

/** Memory for one state, zeros. */
Tensor new_state(const Shape& shape, DType dtype, Device device) {
  Tensor state = zeros(shape, {.dtype = dtype, .device = device});
  state.impl()->storage->set_category(MemoryCategory::optimizer_state);
  return state;
}

}  // namespace

Tensor Optimizer::gradient_of(const Slot& slot) const {
  return materializes_master_grads() ? slot.target().grad() : slot.param.grad();
}

ParamUpdate Optimizer::prepare(std::size_t group, std::size_t index, const Tensor& grad) {
  Slot& slot = groups_[group][index];
  const Tensor& target = slot.target();
  ParamUpdate update{.slot = &slot, .group = group, .grad = grad, .state = slot.state};
  if (!(grad.shape() == target.shape()) || grad.device() != target.device())
    fail<ShapeError>(str(type_name(), ".step"), {.what = str("the gradient of parameter ", index,
                                                             " of group ", group, " does not fit it"),
                                                 .got = str(grad, " for ", target),
                                                 .expected = "one shape and device",
                                                 .hint = "move the model first, then make the optimizer"});
  if (!keeps_state(group)) return update;
  const DType dtype = compute_dtype(target.dtype());
  update.fresh = !slot.state[0].defined();
  for (std::size_t i = 0; i < states().size(); ++i) {
    Tensor& state = update.state[i];
    if (!state.defined())
      state = new_state(states()[i].per_tensor ? Shape{} : target.shape(), dtype, target.device());
    else if (state.dtype() != dtype || state.device() != target.device())
      state = state.to(target.device()).to(dtype);  // the model was moved or converted since
  }
  return update;
}

std::vector<ParamUpdate> Optimizer::collect() {
  std::vector<ParamUpdate> updates;
  for (std::size_t group = 0; group < groups_.size(); ++group)
    for (std::size_t i = 0; i < groups_[group].size(); ++i)
      if (const Tensor grad = gradient_of(groups_[group][i]); grad.defined())
        updates.push_back(prepare(group, i, grad));
  return updates;
}

namespace {

/** What brings the gradients, times inv_scale, down to the norm; 1 where they are within it. */
double factor_to_norm(std::span<const ParamUpdate> updates, double inv_scale, double max_norm) {
  std::vector<Tensor> grads;
  for (const ParamUpdate& u : updates) grads.push_back(u.grad);
  const double factor = clip_factor(total_norm(grads, {.inv_scale = inv_scale}), max_norm);
  return factor >= 1 ? 1 : factor;  // NaN stays
}

}  // namespace

StepResult Optimizer::update_parameters(UpdateCall call, const StepOptions& options) {
  const NoGrad no_grad;
  const CastScope no_casts(nullptr);
  std::vector<ParamUpdate> updates = collect();
  if (updates.empty()) {
    if (!anyone_wants_gradient()) return StepResult::no_grads;
    fail<StateError>(str(type_name(), ".step"),
                     {.what = "no parameter has a gradient",
                      .got = str("0 gradients for parameters: ", params().size()),
                      .expected = "a backward pass before the step",
                      .hint = "call loss.backward() after zero_grad() and before step()"});
  }
  call.inv_scale *= options.inv_scale;
  call.write_back = options.inv_scale != 1;
  if (options.max_norm) call.inv_scale *= factor_to_norm(updates, call.inv_scale, *options.max_norm);
  const auto update_all = [&] { update(updates, call); };
  if (gradient_rule_)
    gradient_rule_->around(*this, updates, call, update_all);
  else
    update_all();
  for (const ParamUpdate& done : updates) {
    done.slot->state = done.state;
    ++done.slot->steps;
  }
  return StepResult::stepped;
}

StepResult Optimizer::step(const StepOptions& options) {
  if (options.max_norm && !(*options.max_norm >= 0))
    fail<ValueError>(str(type_name(), ".step"),
                     {.what = "max_norm must not be negative", .got = str(*options.max_norm)});
  const std::shared_ptr<Attachment> attachment = attachment_;
  std::optional<StepResult> early;
  UpdateCall call;
  if (attachment) early = attachment->before_step(*this, call);
  const StepResult result = early ? *early : update_parameters(call, options);
  if (result == StepResult::stepped) consecutive_skips_ = 0;
  if (result == StepResult::skipped) ++consecutive_skips_;
  if (attachment) attachment->after_step(*this, result);
  return result;
}

}  // namespace mezzo::optim
