#include "amp_optimizer_state.h"

#include "../../autograd/grad_mode.h"
#include "../../autograd/gradient_receiver.h"
#include "../../autograd/node.h"
#include "../../autograd/ops/create.h"
#include "../../autograd/ops/pointwise.h"
#include "../../optim/device_step_state.h"
#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"
#include "../optimizer_masters.h"
#include "../session.h"
#include "divergence.h"
#include "scale_call.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::Slot;
using optim::StepResult;

AmpOptimizerState::AmpOptimizerState(std::shared_ptr<SessionCore> core, Optimizer& optimizer)
    : core_(std::move(core)), optimizer_(&optimizer), index_(core_->optimizers.size()) {}

std::shared_ptr<AmpOptimizerState> AmpOptimizerState::of(Optimizer& optimizer) {
  auto* link = dynamic_cast<AmpOptimizerState*>(optimizer.hooks());
  return link ? link->shared_from_this() : nullptr;
}

template <class F> void AmpOptimizerState::each(const F& f) const {
  if (optimizer_) each_slot(*optimizer_, f);
}

Device AmpOptimizerState::device_of_params() const {
  std::optional<Device> device;
  each([&](const Slot& slot) {
    const Device here = slot.param.device();
    device = device.value_or(here) == here ? here : cpu;
  });
  return device.value_or(cpu);
}

bool AmpOptimizerState::Pending::fits(int loss, const ScopeScale& other) const {
  if (loss != loss_id) return false;
  const bool same =
      scale.on_device.defined() && other.on_device.defined() && scale.version == other.version;
  return same || scale.value() == other.value();
}

std::string AmpOptimizerState::Pending::text() const {
  return str("loss ", loss_id, " times ", scale.value());
}

// ---- scopes -------------------------------------------------------------------------------------

void AmpOptimizerState::require_reduced_gradients() const {
  each([](const Slot& slot) {
    require_reduced(slot.param, "amp::scale_loss",
                    "pass delay_unscale, or leave no_sync before the last scope");
  });
}

void AmpOptimizerState::mark_seen(Seen& seen) const {
  each([&](Slot& slot) { seen.insert(slot.param.impl()); });
}

void AmpOptimizerState::prepare(Seen& seen) {
  each([&](Slot& slot) {
    if (!seen.insert(slot.param.impl()).second) return;
    const Tensor grad = slot.param.grad();
    if (!grad.defined()) return;
    require_reduced(slot.param, "amp::scale_loss", "leave no_sync before the last backward");
    // Earlier gradients of a 16-bit parameter are already accumulated in its master's gradient. If
    // masters get no gradients, those of this iteration stay with the parameter.
    const bool stays =
        !through_master(slot) || (keeps_gradients_scaled(*core_, *optimizer_) && holds_gradients_);
    if (stays) stash_.emplace(slot.param.impl(), grad);
    entered_.push_back(slot.param);
  });
}

void AmpOptimizerState::enter() {
  for (const Tensor& param : entered_) param.set_grad({});
  entered_.clear();
}

namespace {

/** Allocates a master's first gradient. */
Tensor new_gradient(const Tensor& master) {
  Tensor grad = empty_like(master);
  grad.impl()->storage->set_category(MemoryCategory::gradients);
  return grad;
}

/** Returns the gradient itself if it can be written in place, otherwise a dense copy. */
Tensor dense(const Tensor& grad) {
  return same_dense_layout(grad, grad) ? grad.detach() : grad.detach().contiguous();
}

}  // namespace

std::pair<optim::Factor, optim::Factor> AmpOptimizerState::merge_with(const ScopeScale& scale) {
  // Copies the scale: it may be updated before the step divides by it.
  Tensor have = scale.on_device.defined() ? scale.on_device.clone()
                                          : full({}, scale.on_host, {.dtype = DType::f64});
  if (device_of_params() != have.device()) have = have.to(cpu);
  merged_ = {have};
  if (!holds_gradients_ && stash_.empty()) return {1, 1};
  const Device device = have.device();
  const Tensor held = held_scale_.defined() ? held_scale_.to(device)
                                            : ones({}, {.dtype = DType::f64, .device = device});
  const Tensor out = holds_gradients_ ? minimum(have, held) : have;
  merged_ = {out, have, held};
  const auto over = [&](const Tensor& divisor) {
    const auto ratio = optim::Factor::ratio(out.data<double>(), divisor.data<double>());
    return device == cpu ? optim::Factor(ratio.value()) : ratio;
  };
  return {holds_gradients_ ? over(have) : 1, over(held)};
}

void AmpOptimizerState::collect(Seen& seen, const ScopeScale& scale,
                                std::vector<UnscaleWork>& work) {
  if (core_->properties.masters()) {
    MasterChanges changes(core_->masters);
    each([&](Slot& slot) { create_masters(*core_, *optimizer_, {&slot, 1}, changes); });
    changes.commit();
  }
  const bool merges = optimizer_ && keeps_gradients_scaled(*core_, *optimizer_);
  std::pair<optim::Factor, optim::Factor> factors;
  if (merges) factors = merge_with(scale);
  std::size_t position = 0;
  each([&](Slot& slot) {
    const std::uint32_t number = gradient_number(index_, position++);
    if (!seen.insert(slot.param.impl()).second) return;
    if (merges)
      collect_in_place(slot.param, number, factors.first, factors.second, work);
    else if (through_master(slot))
      collect_for_master(slot, number, scale, work);
    else
      collect_in_place(slot.param, number, scale.inverse(slot.param.device()), 1, work);
  });
}

void AmpOptimizerState::collect_for_master(const Slot& slot, std::uint32_t number,
                                           const ScopeScale& scale,
                                           std::vector<UnscaleWork>& work) {
  if (!slot.param.grad().defined()) return;
  const ReceivedGradient received = received_gradient(slot.param);
  const Tensor grad = received.wide.defined() ? received.wide : slot.param.grad();
  const Tensor former = slot.master.grad(),
               out = former.defined() ? former : new_gradient(slot.master);
  work.push_back(
      {{grad, former, out, number}, scale.inverse(grad.device()) * received.factor, 1, true});
  (void)grad_state(slot.master);  // allocates it now: finish() must not allocate
  new_gradients_.emplace_back(slot.master, out);
}

void AmpOptimizerState::collect_in_place(const Tensor& param, std::uint32_t number,
                                         const optim::Factor& new_factor,
                                         const optim::Factor& old_factor,
                                         std::vector<UnscaleWork>& work) {
  const auto stashed = stash_.find(param.impl());
  const Tensor grad = param.grad(), former = stashed == stash_.end() ? Tensor{} : stashed->second;
  if (grad.defined()) {
    const Tensor out = dense(grad);
    work.push_back({{out, former, out, number},
                    new_factor * received_gradient(param).factor,
                    old_factor,
                    true});
    new_gradients_.emplace_back(param, out);
  } else if (former.defined()) {
    const bool stays = old_factor == optim::Factor(1);
    const Tensor out = stays ? former : dense(former);
    if (!stays) work.push_back({{out, {}, out, number}, old_factor, 0, false});
    new_gradients_.emplace_back(param, out);
  }
}

void AmpOptimizerState::finish() {
  for (const auto& [tensor, grad] : new_gradients_) tensor.set_grad(grad);
  if (!merged_.empty()) {
    held_scale_ = merged_[0];
    holds_gradients_ = true;
  }
  forget_results();
  stash_.clear();
}

void AmpOptimizerState::roll_back(Seen& seen) {
  each([&](Slot& slot) {
    if (!seen.insert(slot.param.impl()).second) return;
    const auto stashed = stash_.find(slot.param.impl());
    drop_local_gradient(slot.param);
    slot.param.set_grad(stashed == stash_.end() ? Tensor{} : stashed->second);
  });
  forget_results();
  stash_.clear();
}

// ---- the step -----------------------------------------------------------------------------------

void AmpOptimizerState::refuse_unfit_step() const {
  const std::string op = str(optimizer_->type_name(), ".step");
  if (in_scope)
    fail<StateError>(
        op,
        {.what = "the gradients are still scaled: a scale_loss scope over this optimizer is open",
         .expected = "the scope's end before the step",
         .hint = "close the scope, or leave its block, first"});
  if (pending)
    fail<StateError>(
        op, {.what = "the gradients are still scaled: the last scale_loss delayed unscaling",
             .got = "gradients of " + pending->text(),
             .expected = "a scope without delay_unscale before the step",
             .hint = "or call zero_grad() to drop them"});
}

void AmpOptimizerState::refuse_gradients_without_scope() const {
  bool of_master = false, of_low = false;
  each([&](const Slot& slot) {
    if (!through_master(slot)) return;
    of_master = of_master || slot.master.grad().defined() || holds_gradients_;
    of_low = of_low || slot.param.grad().defined();
  });
  if (of_low && !of_master)
    fail<StateError>(str(optimizer_->type_name(), ".step"),
                     {.what = "backward ran outside scale_loss",
                      .got = "gradients of 16-bit parameters, none of their masters",
                      .expected = "scale_loss(loss, optimizer, body) around backward"});
}

std::optional<StepResult> AmpOptimizerState::before_step(Optimizer& optimizer,
                                                         optim::StepCondition& condition) {
  if (!core_->enabled()) return std::nullopt;
  if (stored_error) std::rethrow_exception(std::exchange(stored_error, nullptr));
  refuse_unfit_step();
  condition.skip_limit = core_->properties.max_consecutive_skips;
  condition.observer = shared_from_this();
  if (loss_of_flag_) condition.found = skip_flag_;
  if (holds_gradients_)
    condition.unscale = ScopeScale{.on_device = held_scale_}.inverse(device_of_params());
  if (optimizer.skips_now(condition)) return StepResult::skipped;
  bring_masters_up_to_date(*core_, *optimizer_);
  refuse_gradients_without_scope();
  return std::nullopt;
}

void AmpOptimizerState::after_step(Optimizer&, const StepResult& result) {
  if (!core_->enabled()) return;
  unstepped = false;
  if (loss_of_flag_) finish_check();
  if (result.is_known() && result == StepResult::no_grads) return;
  drop_masters_gradients(*optimizer_);
  holds_gradients_ = false;
  if (!result.is_known() || result == StepResult::stepped) masters_in_step(*core_, *optimizer_);
}

/** Resets the flag after a step. On the device the same kernel call counts the step and completes
 *  the check of the loss. */
void AmpOptimizerState::finish_check() {
  last_loss_ = *std::exchange(loss_of_flag_, std::nullopt);
  LossScaler& scaler = core_->scalers[static_cast<std::size_t>(last_loss_)];
  optim::DeviceStepState& clock = optimizer_->clock();
  const Device device = skip_flag_.flag.device();
  if (scaler.device() != device) {
    clock.flush();
    return skip_flag_.reset();
  }
  ScaleCall call = scaler.take_pending();
  if (clock.device() == device)
    if (const auto count = clock.take_pending()) call.clock = *count;
  call.reset = pointers_of(skip_flag_);
  scaler.run(call);
}

void AmpOptimizerState::skips_found(Optimizer& optimizer, std::int64_t skips,
                                    std::int64_t diverged_after) {
  const double scale = core_->scalers[static_cast<std::size_t>(last_loss_)].loss_scale();
  try {
    core_->print(str("Gradient overflow.  Skipping step, loss scaler ", last_loss_,
                     " reducing loss scale to ", scale_text(scale),
                     skips == 1 ? "" : str(" (", skips, " steps since the last message)")));
  } catch (const std::bad_alloc&) {}  // the step is done: better no message than an error
  if (diverged_after > 0)
    fail_diverged(optimizer, str("optimizer ", index_), scale, diverged_after);
}

// ---- the overflow flag --------------------------------------------------------------------------

const optim::FoundInf& AmpOptimizerState::skip_flag(Device device) {
  return skip_flag_ = moved_to(device, skip_flag_);
}

optim::FoundInf moved_to(Device device, const optim::FoundInf& found) {
  if (found.flag.defined() && found.flag.device() == device) return found;
  optim::FoundInf moved = optim::FoundInf::reset_on(device);
  if (!found.flag.defined()) return moved;
  moved.flag.copy_(found.flag);
  moved.first.copy_(found.first);
  return moved;
}

void AmpOptimizerState::complete_check() {
  if (!loss_of_flag_) return;
  LossScaler& scaler = core_->scalers[static_cast<std::size_t>(*loss_of_flag_)];
  (void)scaler.call(scaler.device());  // runs a pending check
}

void AmpOptimizerState::depend_on_flag(int loss_id) {
  if (loss_of_flag_ || (skip_flag_.flag.device() == cpu && !skip_flag_.raised())) return;
  loss_of_flag_ = loss_id;
}

// ---- other hooks --------------------------------------------------------------------------------

void AmpOptimizerState::after_zero_grad(Optimizer&) {
  drop_masters_gradients(*optimizer_);
  stash_.clear();
  held_scale_ = {};
  holds_gradients_ = false;
  pending.reset();
  unstepped = false;
}

void AmpOptimizerState::forget_iteration() {
  if (std::exchange(loss_of_flag_, std::nullopt)) skip_flag_.reset();
  stored_error = nullptr;
  if (optimizer_) optimizer_->zero_grad();
}

void AmpOptimizerState::before_add(Optimizer&, std::span<Slot> slots) {
  MasterChanges changes(core_->masters);
  create_masters(*core_, *optimizer_, slots, changes);
  changes.commit();
}

/** Updates the masters of 16-bit parameters that the program has written to, as a step does. */
void AmpOptimizerState::before_replay(Optimizer&) { bring_masters_up_to_date(*core_, *optimizer_); }

void AmpOptimizerState::after_replay(Optimizer&) { masters_in_step(*core_, *optimizer_); }

void AmpOptimizerState::capture_abandoned(Optimizer&) noexcept {
  loss_of_flag_.reset();
  stash_.clear();
  forget_results();
  held_scale_ = {};
  holds_gradients_ = false;
  pending.reset();
  unstepped = false;
}

void AmpOptimizerState::detached(Optimizer&) noexcept {
  each([](Slot& slot) { slot.master = {}; });
  std::erase(core_->optimizers, this);
  optimizer_ = nullptr;
}

std::vector<Tensor> master_params(Optimizer& optimizer) {
  if (const auto link = AmpOptimizerState::of(optimizer))
    bring_masters_up_to_date(*link->core(), optimizer);
  return optimizer.params();
}

}  // namespace mezzo::amp
