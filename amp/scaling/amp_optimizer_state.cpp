#include "amp_optimizer_state.h"

#include "../../autograd/grad_mode.h"
#include "../../autograd/node.h"
#include "../../autograd/ops/create.h"
#include "../../autograd/ops/pointwise.h"
#include "../../tensor/text/text.h"
#include "../conversion.h"
#include "../session.h"
#include "divergence.h"
#include "nonfinite_gradient.h"

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

template <class F> void AmpOptimizerState::each_slot(const F& f) const {
  if (!optimizer_) return;
  for (std::size_t group = 0; group < optimizer_->num_groups(); ++group)
    for (Slot& slot : optimizer_->slots(group)) f(slot);
}

// ---- scopes -------------------------------------------------------------------------------------

void AmpOptimizerState::mark_seen(Seen& seen) const {
  each_slot([&](Slot& slot) { seen.insert(slot.param.impl()); });
}

void AmpOptimizerState::prepare(Seen& seen) {
  each_slot([&](Slot& slot) {
    if (!seen.insert(slot.param.impl()).second) return;
    const Tensor grad = slot.param.grad();
    if (!grad.defined()) return;
    // Earlier gradients of a 16-bit parameter are already accumulated in its master's gradient. If
    // masters get no gradients, those of this iteration stay with the parameter.
    const bool stays =
        !through_master(slot) || (keeps_gradients_scaled() && held_.of_this_iteration);
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

bool AmpOptimizerState::keeps_gradients_scaled() const {
  return optimizer_ && core_->properties.masters() && !optimizer_->materializes_master_grads();
}

AmpOptimizerState::MergeFactors AmpOptimizerState::merge_factors(const ScopeScale& scale) const {
  const bool joins = held_.of_this_iteration;
  if (!scale.of_device.defined()) {
    const double held = held_.read(), out = joins ? std::min(scale.of_host, held) : scale.of_host;
    return {{out, {}, true}, out / scale.of_host, out / held};
  }
  // Copies the scale: it is updated before the step divides by it.
  const Tensor have = scale.of_device.clone();
  if (!joins && stash_.empty()) return {{1, have, true}, 1, 1};
  const Tensor held =
      held_.of_device.defined()
          ? held_.of_device
          : full({}, held_.of_host, {.dtype = DType::f64, .device = scale.of_device.device()});
  const Tensor out = joins ? minimum(have, held) : have;
  const auto over = [&](const Tensor& divisor) {
    return optim::Factor::ratio(out.data<double>(), divisor.data<double>());
  };
  return {{1, out, true}, joins ? over(have) : 1, over(held), {have, held}};
}

void AmpOptimizerState::collect(Seen& seen, const ScopeScale& scale,
                                std::vector<UnscaleWork>& work) {
  if (core_->properties.masters()) {
    MasterChanges changes(core_->masters);
    each_slot([&](Slot& slot) { create_masters({&slot, 1}, changes); });
    changes.commit();
  }
  if (keeps_gradients_scaled()) merge_ = merge_factors(scale);
  std::size_t position = 0;
  each_slot([&](Slot& slot) {
    const std::uint32_t number = gradient_number(index_, position++);
    if (!seen.insert(slot.param.impl()).second) return;
    if (merge_)
      collect_in_place(slot.param, number, merge_->of_new, merge_->of_old, work);
    else if (through_master(slot))
      collect_for_master(slot, number, scale.inverse, work);
    else
      collect_in_place(slot.param, number, scale.inverse, 1, work);
  });
}

void AmpOptimizerState::collect_for_master(const Slot& slot, std::uint32_t number,
                                           const optim::Factor& inverse,
                                           std::vector<UnscaleWork>& work) {
  const Tensor grad = slot.param.grad();
  if (!grad.defined()) return;
  const Tensor former = slot.master.grad(),
               out = former.defined() ? former : new_gradient(slot.master);
  work.push_back({{grad, former, out, number}, inverse, 1, true});
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
    work.push_back({{out, former, out, number}, new_factor, old_factor, true});
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
  if (merge_) held_ = merge_->held;
  forget_results();
  stash_.clear();
}

void AmpOptimizerState::roll_back(Seen& seen) {
  each_slot([&](Slot& slot) {
    if (!seen.insert(slot.param.impl()).second) return;
    const auto stashed = stash_.find(slot.param.impl());
    slot.param.set_grad(stashed == stash_.end() ? Tensor{} : stashed->second);
  });
  forget_results();
  stash_.clear();
}

// ---- masters ------------------------------------------------------------------------------------

void AmpOptimizerState::create_masters(std::span<Slot> slots, MasterChanges& changes,
                                       const Conversion* conversion) const {
  if (!core_->properties.masters()) return;
  for (Slot& slot : slots) {
    const Tensor& param = slot.param;
    if (through_master(slot) || !is_low(param.dtype())) continue;
    if (!param.requires_grad() && !param.grad().defined()) continue;
    create_master(slot, changes, conversion);
  }
}

void AmpOptimizerState::create_master(Slot& slot, MasterChanges& changes,
                                      const Conversion* conversion) const {
  const Tensor value = conversion ? conversion->original(slot.param) : Tensor{};
  changes.point(slot.master, changes.create(slot.param, value),
                keeps_gradients_scaled() ? Twin::bare_master : Twin::none);
}

void AmpOptimizerState::bring_masters_up_to_date(MasterChanges& changes) const {
  if (!core_->properties.masters()) return;
  each_slot([&](Slot& slot) {
    create_masters({&slot, 1}, changes);
    if (through_master(slot)) changes.reconcile(slot.param);
  });
}

void AmpOptimizerState::bring_masters_up_to_date() {
  MasterChanges changes(core_->masters);
  bring_masters_up_to_date(changes);
  changes.commit();
}

void AmpOptimizerState::drop_masters_gradients() {
  each_slot([](Slot& slot) {
    if (through_master(slot)) slot.master.set_grad({});
  });
}

void AmpOptimizerState::masters_in_step() {
  each_slot([&](Slot& slot) {
    if (!through_master(slot)) return;
    if (Master* master = core_->masters.find(slot.param)) master->in_step();
  });
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
             .got = str("gradients times ", pending->scale),
             .expected = "a scope without delay_unscale before the step",
             .hint = "or call zero_grad() to drop them"});
}

void AmpOptimizerState::refuse_gradients_without_scope() const {
  bool of_master = false, of_low = false;
  each_slot([&](const Slot& slot) {
    if (!through_master(slot)) return;
    of_master = of_master || slot.master.grad().defined() || held_.of_this_iteration;
    of_low = of_low || slot.param.grad().defined();
  });
  if (of_low && !of_master)
    fail<StateError>(str(optimizer_->type_name(), ".step"),
                     {.what = "backward ran outside scale_loss",
                      .got = "gradients of 16-bit parameters, none of their masters",
                      .expected = "scale_loss(loss, optimizer, body) around backward"});
}

std::optional<StepResult> AmpOptimizerState::before_step(Optimizer&, optim::UpdateCall& call) {
  if (!core_->enabled()) return std::nullopt;
  if (stored_error) std::rethrow_exception(std::exchange(stored_error, nullptr));
  refuse_unfit_step();
  if (!is_deferring_) read_flag();
  if (skip_) return skip();
  bring_masters_up_to_date();
  refuse_gradients_without_scope();
  if (held_.of_this_iteration) call.inv_scale = held_.inverse();
  return std::nullopt;
}

// ---- deferred steps -----------------------------------------------------------------------------

const FoundInf& AmpOptimizerState::skip_flag(Device device) {
  const Tensor& flag = skip_flag_.flag;
  if (!flag.defined() || flag.device() != device) skip_flag_ = lowered_flag(device);
  return skip_flag_;
}

/** Creates the flags of this optimizer and of its session, outside of a capture: a flag created in
 *  a captured step would be reset at every replay. */
void AmpOptimizerState::make_flags(Device device) {
  skip_flag(device);
  for (DeferredOverflow& overflow : core_->deferred)
    if (!overflow.flag.flag.defined()) overflow.flag = lowered_flag(device);
}

/** Reads the flag of deferred scopes before a synchronous step. Waits for the device. */
void AmpOptimizerState::read_flag() {
  if (!flagged) return;
  if (Capture::current())
    fail<StateError>(
        str(optimizer_->type_name(), ".step"),
        {.what = "the overflow flag is unknown while a step is being captured",
         .hint = "call amp::step_deferred(optimizer), and amp::last_verdict after a replay"});
  core_->defers_steps = false;
  const int loss = *flagged;
  const bool found = is_raised(skip_flag_);
  // Runs the scaler's pending check, which reads the flag, before the flag is reset.
  (void)core_->scalers[static_cast<std::size_t>(loss)].loss_scale();
  if (found) {
    lower(skip_flag_);
    skip_next_step(loss);
  }
  flagged.reset();
}

void AmpOptimizerState::step_deferred(const optim::StepOptions& options) {
  Optimizer& optimizer = *optimizer_;
  if (!core_->enabled() || !flagged || !optimizer.can_defer()) {
    Capture::require_prepared("amp::step_deferred", !flagged || optimizer.can_defer(),
                              "the optimizer takes its first step");
    (void)optimizer.step(options);
    core_->defers_steps = core_->enabled() && !Capture::current();
    if (core_->defers_steps && optimizer.num_groups() > 0 && !optimizer.slots(0).empty())
      make_flags(optimizer.slots(0)[0].param.device());
    return;
  }
  const int loss = *flagged;
  LossScaler& scaler = core_->scalers[static_cast<std::size_t>(loss)];
  is_deferring_ = true;
  try {
    optimizer.step_deferred(options, {.found_inf = skip_flag_.flag,
                                      .skip_limit = core_->properties.max_consecutive_skips});
  } catch (...) {
    is_deferring_ = false;
    throw;
  }
  is_deferring_ = false;
  ScaleCall call = scaler.take_pending();
  if (const auto count = optimizer.clock().take_pending()) call.clock = *count;
  call.lowered = of_device(skip_flag_);
  scaler.run(call);
  last_skip_ = loss;
  flagged.reset();
  if (!Capture::current()) watch();
}

void AmpOptimizerState::watch() {
  const auto scale = [this] {
    return core_->scalers[static_cast<std::size_t>(last_skip_)].loss_scale();
  };
  watch_.tick(*optimizer_, str("optimizer ", index_), scale);
  report_skips(watch_.take_new_skips());
}

StepResult AmpOptimizerState::last_verdict() {
  const auto scale = [this] {
    return core_->scalers[static_cast<std::size_t>(last_skip_)].loss_scale();
  };
  watch_.look(*optimizer_, str("optimizer ", index_), scale);
  report_skips(watch_.take_new_skips());
  return optimizer_->last_result();
}

void AmpOptimizerState::report_skips(std::int64_t skips) {
  if (skips == 0) return;
  core_->print(str("Gradient overflow.  Skipping step, loss scaler ", last_skip_,
                   " reducing loss scale to ",
                   scale_text(core_->scalers[static_cast<std::size_t>(last_skip_)].loss_scale()),
                   skips == 1 ? "" : str(" (", skips, " steps since the last message)")));
}

void AmpOptimizerState::capture_abandoned(Optimizer&) noexcept {
  flagged.reset();
  skip_.reset();
  stash_.clear();
  forget_results();
  held_ = {};
  pending.reset();
  unstepped = is_deferring_ = false;
  for (LossScaler& scaler : core_->scalers) scaler.drop_pending();
}

void step_deferred(Optimizer& optimizer, const optim::StepOptions& options) {
  const auto link = AmpOptimizerState::of(optimizer);
  if (!link)
    fail<StateError>("amp::step_deferred",
                     {.what = "the optimizer is attached to no session",
                      .got = std::string(optimizer.type_name()),
                      .hint = "pass it to amp::initialize, or use GradScaler.step_deferred"});
  link->step_deferred(options);
}

StepResult last_verdict(Optimizer& optimizer) {
  const auto link = AmpOptimizerState::of(optimizer);
  return link ? link->last_verdict() : optimizer.last_result();
}

StepResult AmpOptimizerState::skip() {
  const std::string notice =
      str("Gradient overflow.  Skipping step, loss scaler ", *skip_, " reducing loss scale to ",
          scale_text(core_->scalers[static_cast<std::size_t>(*skip_)].loss_scale()));
  last_skip_ = *skip_;
  skip_.reset();
  held_.of_this_iteration = false;
  drop_masters_gradients();
  core_->print(notice);
  return StepResult::skipped;
}

void AmpOptimizerState::after_step(Optimizer& optimizer, StepResult result) {
  if (!core_->enabled()) return;
  unstepped = false;
  if (result == StepResult::stepped) {
    drop_masters_gradients();
    held_.of_this_iteration = false;
    masters_in_step();
  }
  const int limit = core_->properties.max_consecutive_skips;
  if (result == StepResult::skipped && limit > 0 && optimizer.consecutive_skips() >= limit)
    report_divergence();
}

void AmpOptimizerState::report_divergence() {
  fail_diverged(*optimizer_, str("optimizer ", index_),
                core_->scalers[static_cast<std::size_t>(last_skip_)].loss_scale());
}

// ---- other hooks --------------------------------------------------------------------------------

void AmpOptimizerState::after_zero_grad(Optimizer&) {
  drop_masters_gradients();
  stash_.clear();
  held_ = {};
  pending.reset();
  unstepped = false;
}

void AmpOptimizerState::forget_iteration() {
  skip_.reset();
  stored_error = nullptr;
  if (optimizer_) optimizer_->zero_grad();
}

void AmpOptimizerState::before_add(Optimizer&, std::span<Slot> slots) {
  MasterChanges changes(core_->masters);
  create_masters(slots, changes);
  changes.commit();
}

/** Updates the masters of 16-bit parameters that the program has written to, as a step does. */
void AmpOptimizerState::before_replay(Optimizer&) { bring_masters_up_to_date(); }

void AmpOptimizerState::after_replay(Optimizer&) {
  masters_in_step();
  watch();
}

void AmpOptimizerState::detached(Optimizer&) noexcept {
  each_slot([](Slot& slot) { slot.master = {}; });
  std::erase(core_->optimizers, this);
  optimizer_ = nullptr;
}

std::vector<Tensor> master_params(Optimizer& optimizer) {
  if (const auto link = AmpOptimizerState::of(optimizer)) link->bring_masters_up_to_date();
  return optimizer.params();
}

}  // namespace mezzo::amp
