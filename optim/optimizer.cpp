#include "optimizer.h"

#include <cmath>
#include <unordered_set>

#include "../autograd/grad_mode.h"
#include "../autograd/ops/create.h"
#include "../tensor/text.h"

namespace mezzo::optim {

std::string_view name(StepResult result) {
  switch (result) {
    case StepResult::stepped: return "stepped";
    case StepResult::skipped: return "skipped";
    case StepResult::no_grads: break;
  }
  return "no_grads";
}

Optimizer::~Optimizer() { attach(nullptr); }

void Optimizer::attach(std::shared_ptr<Attachment> attachment) {
  const std::shared_ptr<Attachment> former = std::exchange(attachment_, std::move(attachment));
  if (former) former->detached(*this);
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

/** Memory for one state of `target`, zeros. */
Tensor new_state(const Tensor& target, DType dtype) {
  Tensor state = zeros(target.shape(), {.dtype = dtype, .device = target.device()});
  state.impl()->storage->set_category(MemoryCategory::optimizer_state);
  return state;
}

}  // namespace

Optimizer::Update Optimizer::prepare(std::size_t group, std::size_t index) {
  Slot& slot = groups_[group][index];
  const Tensor& target = slot.target();
  Update update{.slot = &slot, .group = group, .grad = target.grad(), .state = slot.state};
  const Tensor& grad = update.grad;
  if (!(grad.shape() == target.shape()) || grad.device() != target.device())
    fail<ShapeError>(str(type_name(), ".step"), {.what = str("the gradient of parameter ", index,
                                                             " of group ", group, " does not fit it"),
                                                 .got = str(grad, " for ", target),
                                                 .expected = "one shape and device",
                                                 .hint = "move the model first, then make the optimizer"});
  if (!keeps_state(group)) return update;
  const DType dtype = compute_dtype(target.dtype());
  update.fresh = !slot.state[0].defined();
  for (std::size_t i = 0; i < state_names().size(); ++i) {
    Tensor& state = update.state[i];
    if (!state.defined())
      state = new_state(target, dtype);
    else if (state.dtype() != dtype || state.device() != target.device())
      state = state.to(target.device()).to(dtype);  // the model was moved or converted since
  }
  return update;
}

std::vector<Optimizer::Update> Optimizer::collect() {
  std::vector<Update> updates;
  for (std::size_t group = 0; group < groups_.size(); ++group)
    for (std::size_t i = 0; i < groups_[group].size(); ++i)
      if (groups_[group][i].target().grad().defined()) updates.push_back(prepare(group, i));
  return updates;
}

StepResult Optimizer::update_parameters() {
  const NoGrad no_grad;
  const CastScope no_casts(nullptr);
  const std::vector<Update> updates = collect();
  if (updates.empty()) {
    if (!anyone_wants_gradient()) return StepResult::no_grads;
    fail<StateError>(str(type_name(), ".step"),
                     {.what = "no parameter has a gradient",
                      .got = str("0 gradients for parameters: ", params().size()),
                      .expected = "a backward pass before the step",
                      .hint = "call loss.backward() after zero_grad() and before step()"});
  }
  update(updates);
  for (const Update& done : updates) {
    done.slot->state = done.state;
    ++done.slot->steps;
  }
  return StepResult::stepped;
}

StepResult Optimizer::step() {
  const std::shared_ptr<Attachment> attachment = attachment_;
  std::optional<StepResult> early;
  if (attachment) early = attachment->before_step(*this);
  const StepResult result = early ? *early : update_parameters();
  if (result == StepResult::stepped) consecutive_skips_ = 0;
  if (result == StepResult::skipped) ++consecutive_skips_;
  if (attachment) attachment->after_step(*this, result);
  return result;
}

}  // namespace mezzo::optim
