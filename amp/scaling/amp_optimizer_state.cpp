#include "amp_optimizer_state.h"

#include <tuple>

#include "../../autograd/ops/create.h"
#include "../../autograd/ops/pointwise.h"
#include "../../optim/device_step_state.h"
#include "../../tensor/text/text.h"
#include "../optimizer_masters.h"
#include "../session.h"
#include "divergence.h"
#include "gradient_check.h"
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

std::string AmpOptimizerState::text() const {
  return str(optimizer_->type_name(), " (optimizer ", index_, ")");
}

// ---- scopes -------------------------------------------------------------------------------------

bool AmpOptimizerState::keeps_scaled() const { return keeps_gradients_scaled(*core_, *optimizer_); }

bool AmpOptimizerState::fits(int loss, const ScaleValue& scale) const {
  if (!pending) return true;
  if (loss != pending_loss) return false;
  const bool same = pending->on_device.defined() && scale.on_device.defined() &&
                    pending->version == scale.version;
  return same || pending->value() == scale.value();
}

std::string AmpOptimizerState::pending_text() const {
  return str("loss ", pending_loss, " times ", pending->value());
}

void AmpOptimizerState::prepare(Seen& seen) {
  gradients.prepare(*optimizer_, seen, keeps_scaled() && holds_gradients_);
}

std::pair<optim::Factor, optim::Factor> AmpOptimizerState::merge_with(const ScaleValue& scale) {
  // Copies the scale: it may be updated before the step divides by it.
  Tensor have = scale.on_device.defined() ? scale.on_device.clone()
                                          : full({}, scale.on_host, {.dtype = DType::f64});
  if (device_of_params(*optimizer_) != have.device()) have = have.to(cpu);
  merged_ = {have};
  if (!holds_gradients_ && !gradients.has_stash()) return {1, 1};
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

void AmpOptimizerState::collect(Seen& seen, const ScaleValue& scale,
                                std::vector<GradientSum>& sums) {
  MasterChanges changes(core_->masters);
  each_slot(*optimizer_, [&](Slot& slot) {
    create_masters(*core_, *optimizer_, {&slot, 1}, changes);
  });
  changes.commit();
  if (!keeps_scaled())
    return gradients.collect(
        *optimizer_, index_, false, [&](Device device) { return scale.inverse(device); }, 1, seen,
        sums);
  const auto [factor, former_factor] = merge_with(scale);
  gradients.collect(
      *optimizer_, index_, true, [&factor = factor](Device) { return factor; }, former_factor, seen,
      sums);
}

void AmpOptimizerState::finish() {
  gradients.finish();
  pending.reset();
  if (merged_.empty()) return;
  held_scale_ = merged_[0];
  holds_gradients_ = true;
  merged_.clear();
}

// ---- the step -----------------------------------------------------------------------------------

void AmpOptimizerState::require_unscaled(std::string_view op) const {
  if (in_scope)
    fail<StateError>(
        op,
        {.what = "the gradients are still scaled: a scale_loss scope over this optimizer is open",
         .expected = "the scope's end before the step",
         .hint = "close the scope, or leave its block, first"});
  if (pending)
    fail<StateError>(
        op, {.what = "the gradients are still scaled: the last scale_loss delayed unscaling",
             .got = str("gradients of ", pending_text(), " in ", text()),
             .expected = "a scope without delay_unscale before the step",
             .hint = "run one and call step(), or call zero_grad() to drop them"});
}

void AmpOptimizerState::require_stepped(std::string_view op) const {
  require_unscaled(op);
  bool has_gradients = unstepped;
  each_slot(*optimizer_, [&](const Slot& slot) {
    has_gradients = has_gradients || (slot.master.defined() && slot.master.grad().defined());
  });
  const std::tuple<bool, const char*, const char*> unfinished[] = {
      {stored_error != nullptr, "a previous scale_loss scope failed",
       "call step(), which throws it"},
      {loss_of_flag_ && skip_flag_.raised(), "an overflow is pending for the next step",
       "call step() first; it will be skipped"},
      {has_gradients, "gradients are pending for a step and would not be saved",
       "call step() first, or zero_grad() to drop them"}};
  for (const auto& [holds, what, hint] : unfinished)
    if (holds)
      fail<StateError>(op, {.what = what,
                            .got = text(),
                            .expected = "a point between a step and the next backward pass",
                            .hint = hint});
}

std::optional<StepResult> AmpOptimizerState::before_step(Optimizer& optimizer,
                                                         optim::StepCondition& condition) {
  if (!core_->enabled()) return std::nullopt;
  if (stored_error) std::rethrow_exception(std::exchange(stored_error, nullptr));
  require_unscaled(str(optimizer.type_name(), ".step"));
  condition.skip_limit = core_->properties.max_consecutive_skips;
  condition.observer = shared_from_this();
  if (loss_of_flag_) condition.found = skip_flag_;
  if (holds_gradients_)
    condition.unscale = ScaleValue{.on_device = held_scale_}.inverse(device_of_params(*optimizer_));
  if (optimizer.skips_now(condition)) return StepResult::skipped;
  bring_masters_up_to_date(*core_, *optimizer_);
  if (!holds_gradients_) require_masters_gradients(*optimizer_);
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
  LossScaler& of_loss = scaler(last_loss_);
  const Device device = skip_flag_.flag.device();
  if (of_loss.device() != device) {
    optimizer_->clock().flush();
    return skip_flag_.reset();
  }
  ScaleCall call = of_loss.take_pending();
  add_step(call, device, optimizer_->clock());
  call.reset = pointers_of(skip_flag_);
  of_loss.run(call);
}

void AmpOptimizerState::skips_found(Optimizer& optimizer, std::int64_t skips,
                                    std::int64_t diverged_after) {
  const double scale = scaler(last_loss_).loss_scale();
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

void AmpOptimizerState::complete_check() {
  if (!loss_of_flag_) return;
  LossScaler& of_loss = scaler(*loss_of_flag_);
  (void)of_loss.call(of_loss.device());  // runs a pending check
}

void AmpOptimizerState::depend_on_flag(int loss_id) {
  if (loss_of_flag_ || (skip_flag_.flag.device() == cpu && !skip_flag_.raised())) return;
  loss_of_flag_ = loss_id;
}

// ---- other hooks --------------------------------------------------------------------------------

void AmpOptimizerState::forget_gradients() {
  gradients.forget();
  merged_.clear();
  held_scale_ = {};
  holds_gradients_ = false;
  pending.reset();
  unstepped = false;
}

void AmpOptimizerState::after_zero_grad(Optimizer&) {
  drop_masters_gradients(*optimizer_);
  forget_gradients();
}

void AmpOptimizerState::forget_iteration() {
  if (std::exchange(loss_of_flag_, std::nullopt)) skip_flag_.reset();
  stored_error = nullptr;
  optimizer_->zero_grad();
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
  forget_gradients();
}

void AmpOptimizerState::detached(Optimizer&) noexcept {
  each_slot(*optimizer_, [](Slot& slot) { slot.master = {}; });
  std::erase(core_->optimizers, this);
  optimizer_ = nullptr;
}

}  // namespace mezzo::amp
