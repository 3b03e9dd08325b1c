#include "amp_optimizer_state.h"

#include <algorithm>
#include <utility>

#include "../../autograd/gradient_mark.h"
#include "../../autograd/gradient_receiver.h"
#include "../../autograd/node.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/device/capture.h"
#include "../../tensor/ops/create.h"
#include "../../tensor/ops/elementwise/pointwise.h"
#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"
#include "../weights/optimizer_masters.h"
#include "divergence.h"
#include "gradient_check.h"

namespace mezzo::amp {

namespace {
constexpr std::string_view kScaleLoss = "amp::scale_loss";
}

using optim::Optimizer;
using optim::Slot;
using optim::StepResult;

void refuse(std::string_view op, std::string what, std::string hint) {
  fail<StateError>(op, {.what = std::move(what), .hint = std::move(hint)});
}

AmpOptimizerState::AmpOptimizerState(std::shared_ptr<SessionCore> session, LossScaler* first_scaler,
                                     Optimizer& optimizer)
    : core(std::move(session)),
      clock(optimizer.clock().shared_from_this()),
      scaler(first_scaler),
      delayed(core ? core->scalers.size() : 0) {
  if (scaler) {
    OptimizerTable& all = *scaler->optimizers;
    const auto free =
        std::find_if(all.begin(), all.end(), [](const auto& other) { return !other->owner(); });
    index = static_cast<std::size_t>(free - all.begin());
    if (free == all.end()) all.emplace_back();
    all[index] = clock;
  }
  name = core ? str("optimizer ", index) : std::string(optimizer.type_name());
}

std::shared_ptr<AmpOptimizerState> AmpOptimizerState::of(Optimizer& optimizer) {
  auto* link = dynamic_cast<AmpOptimizerState*>(optimizer.hooks());
  return link ? link->shared_from_this() : nullptr;
}

// ---- scopes -------------------------------------------------------------------------------------

std::string AmpOptimizerState::pending_text() const {
  return str("loss ", pending->scaler->index, " times ", pending->value());
}

void AmpOptimizerState::prepare(Seen& seen) {
  sync_masters_gradients(*optimizer(), kScaleLoss, holds_gradients_);
  gradients.prepare(*optimizer(), seen);
}

void AmpOptimizerState::delay(Seen& seen, const ScaleValue& scale) {
  gradients.delay(*optimizer(), seen);
  pending = scale;
}

void AmpOptimizerState::refresh_pending() {
  if (!pending) return;
  bool any = false;
  each_slot(*optimizer(), [&](const Slot& slot) {
    any = any || gradient_scale(slot.param) == GradientScale::delayed;
  });
  if (any) return;
  pending.reset();
  gradients.forget(*optimizer());
}

std::pair<optim::Factor, optim::Factor> AmpOptimizerState::merge_with(const ScaleValue& scale) {
  // Copies the scale: it may be updated before the step divides by it.
  Tensor have = scale.on_device.defined() ? scale.on_device.clone()
                                          : full({}, scale.on_host, {.dtype = DType::f64});
  if (device_of_params(*optimizer()) != have.device()) have = have.to(cpu);
  merged_ = {have};
  if (!holds_gradients_ && !gradients.has_stash(*optimizer())) return {1, 1};
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
  MasterChanges changes(core->masters);
  each_slot(*optimizer(), [&](Slot& slot) {
    create_masters(*core, *optimizer(), {&slot, 1}, changes);
  });
  changes.commit();
  const bool stays_scaled = keeps_gradients_scaled(*core, *optimizer());
  std::pair<optim::Factor, optim::Factor> factors;
  if (stays_scaled) factors = merge_with(scale);
  const auto factor = [&](Device device) {
    return stays_scaled ? factors.first : scale.inverse(device);
  };
  gradients.collect(*optimizer(), index, stays_scaled, factor, factors.second, seen, sums);
}

void AmpOptimizerState::finish() {
  gradients.finish(*optimizer());
  pending.reset();
  if (merged_.empty()) return;
  held_scale_ = merged_[0];
  holds_gradients_ = true;
  merged_.clear();
}

// ---- the step -----------------------------------------------------------------------------------

void AmpOptimizerState::require_unscaled(std::string_view op) {
  refresh_pending();
  if (in_scope)
    refuse(op, "the gradients are still scaled: a scale_loss scope over this optimizer is open",
           "close the scope, or leave its block, before the step");
  if (pending)
    refuse(op,
           str("the gradients are still scaled: the last scale_loss delayed unscaling ",
               pending_text(), " in ", optimizer()->type_name(), " (", name, ")"),
           "run a scope without delay_unscale and call step(), or zero_grad() to drop them");
  AmpOptimizerState* const self = this;
  core->require_no_other_pending(op, {&self, 1});
}

void AmpOptimizerState::require_scoped(std::string_view op) {
  if (scoped || !core->scales_losses()) return;
  Seen elsewhere;  // parameters of other optimizers whose scopes have unscaled the gradients
  for (const AmpOptimizerState* const other : core->optimizers)
    if (other->scoped && other->optimizer())
      each_slot(*other->optimizer(),
                [&](const Slot& slot) { elsewhere.insert(slot.param.impl()); });
  each_slot(*optimizer(), [&](const Slot& slot) {
    if (!slot.param.grad().defined() || gradient_scale(slot.param) != GradientScale::plain ||
        elsewhere.count(slot.param.impl()) > 0)
      return;
    const std::string weight = core->name_of(slot.param);
    fail<StateError>(
        op, {.what = "backward ran outside scale_loss: without the loss scale, small gradients "
                     "become zero in 16 bits",
             .got = str("a gradient of ", weight.empty() ? "" : "\"" + weight + "\" ", slot.param,
                        " from no scope of this optimizer"),
             .expected = "scale_loss(loss, optimizer, body) around backward, over all optimizers "
                         "whose parameters get gradients",
             .hint = "call zero_grad() to drop them"});
  });
}

void AmpOptimizerState::require_stepped(std::string_view op) {
  require_unscaled(op);
  const std::string of = str(" of ", optimizer()->type_name(), " (", name, ")");
  if (stored_error)
    refuse(op, "a previous scale_loss scope" + of + " failed", "call step(), which throws it");
  if (raised_by && found.raised())
    refuse(op, "an overflow is pending for the next step" + of,
           "call step() first; it will be skipped");
  if (unscaled)
    refuse(op, "gradients are pending for a step" + of + " and would not be saved",
           "call step() first, or zero_grad() to drop them");
}

std::optional<StepResult> AmpOptimizerState::before_step(Optimizer& optimizer,
                                                         optim::FoundInf& skips_if,
                                                         optim::Factor& unscale) {
  lent_.clear();
  if (!core->enabled()) return std::nullopt;
  if (stored_error) std::rethrow_exception(std::exchange(stored_error, nullptr));
  require_unscaled(str(optimizer.type_name(), ".step"));
  require_scoped(str(optimizer.type_name(), ".step"));
  clock->observe(shared_from_this(), core->properties.max_consecutive_skips);
  if (!Capture::current()) ++steps;
  if (raised_by) skips_if = found;
  if (holds_gradients_)
    unscale =
        ScaleValue{.on_device = held_scale_}.inverse(device_of_params(optimizer)) * unscale.number;
  if (optimizer.skips_now(skips_if)) return StepResult::skipped;
  bring_masters_up_to_date(*core, optimizer);
  sync_masters_gradients(optimizer, str(optimizer.type_name(), ".step"), holds_gradients_);
  set_zero_gradients(optimizer);
  watch_gradients(1, std::exchange(saw_loss, false), std::exchange(lost_loss, false));
  return std::nullopt;
}

Tensor AmpOptimizerState::low_copy(const Tensor& param) {
  if (!core || !core->enabled()) return {};
  const Tensor copy = core->cache.lend(param);
  if (copy.defined()) lent_.push_back(param);
  return copy;
}

void AmpOptimizerState::after_step(Optimizer& optimizer, const StepResult& result) {
  for (const Tensor& param : lent_) core->cache.settle(param);
  lent_.clear();
  unscaled = false;
  if (raised_by) {
    scaler = std::exchange(raised_by, nullptr);
    scaler->finish_step(*clock, found);
  }
  if (result.is_known() && result == StepResult::no_grads) return;
  if (!result.is_known() || result == StepResult::stepped) masters_in_step(*core, optimizer);
}

void AmpOptimizerState::watch_gradients(std::int64_t new_steps, bool saw, bool lost) {
  if (core->checks_gradients() || core->properties.max_consecutive_skips == 0) return;
  if (Capture::current()) return;
  // All processes that share gradients have to look at the same steps.
  if (saw)
    each_slot(*optimizer(), [&](const Slot& slot) { saw = saw && !gradient_receiver(slot.param); });
  // A finite loss shows that the weights are finite still: nothing to look for.
  watch_.step(*this, new_steps, saw && lost, saw && !lost);
}

namespace {

/** Returns what to do about a training that diverges. */
std::string divergence_hint(const std::optional<LossHistory::Run>& nonfinite) {
  if (!nonfinite) return "lower the learning rate or run under amp::detect_nonfinite";
  if (nonfinite->from_start)
    return "the loss is not finite from the start, at any learning rate: look at the data, the "
           "labels and the net, under amp::detect_nonfinite";
  return str("the loss is not finite since step ", nonfinite->since,
             ": lower the learning rate, or look at the data of that step, under "
             "amp::detect_nonfinite");
}

/** Returns the first non-finite gradient of a scaler's latest overflow, and whether overflows are
 *  to be expected. */
std::string overflow_text(const LossScaler& scaler) {
  constexpr std::int64_t kStart = 20;  // checks until a scale of 2^16 has come down
  const ScaleState& state = scaler.state();
  const std::string gradient =
      nonfinite_gradient_text(*scaler.optimizers, state.first_nonfinite, scaler.overflow_origin);
  return str(gradient.empty() ? "" : ": " + gradient,
             state.dynamic && state.checks <= kStart
                 ? "; normal in the first steps, until the scale fits"
                 : "");
}

}  // namespace

void AmpOptimizerState::skips_found(Optimizer& optimizer, std::int64_t skips,
                                    std::int64_t diverged_after) {
  if (!core && diverged_after <= 0) return;
  const double scale = scaler->loss_scale();
  try {
    if (core)
      core->print(str("Gradient overflow.  Skipping step, loss scaler ", scaler->index,
                      " reducing loss scale to ", scale_text(scale),
                      skips == 1 ? "" : str(" (", skips, " steps since the last message)"),
                      overflow_text(*scaler)));
  } catch (const std::bad_alloc&) {}  // the step is done: better no message than an error
  if (diverged_after <= 0) return;
  const std::string first = nonfinite_gradient_text(optimizer), loss = scaler->losses.text();
  fail<DivergenceError>(str("step(", name, ")"),
                        {.what = str(diverged_after, " consecutive steps skipped"),
                         .got = str(first.empty() ? "no gradient that is still non-finite"
                                                  : first + " (first non-finite gradient)",
                                    loss.empty() ? "" : ", " + loss, ", loss scale ", scale),
                         .expected = "finite",
                         .hint = divergence_hint(scaler->losses.nonfinite_run())});
}

const optim::FoundInf& AmpOptimizerState::flag_on(Device device) {
  if (raised_by) raised_by->finish_pending();
  return move_to(device, found);
}

void AmpOptimizerState::depend_on_flag(LossScaler& of_loss) {
  if (!raised_by && (found.word.device() != cpu || found.raised())) raised_by = &of_loss;
}

// ---- other hooks --------------------------------------------------------------------------------

void AmpOptimizerState::forget_gradients() {
  gradients.forget(*optimizer());
  merged_.clear();
  held_scale_ = {};
  holds_gradients_ = false;
  pending.reset();
  unscaled = scoped = false;
}

void AmpOptimizerState::after_zero_grad(Optimizer& optimizer) {
  // In a delayed sequence a parameter whose gradient is local has none left. It has none on the
  // ranks either whose losses did not use it, so that all ranks take the same step.
  if (pending)
    each_slot(optimizer, [](const Slot& slot) {
      if (gradient_receiver(slot.param)) slot.param.set_grad({});
    });
  drop_masters_gradients(optimizer);
  forget_gradients();
}

void AmpOptimizerState::finish_gradients(Seen& seen) {
  refresh_pending();
  sync_masters_gradients(*optimizer());
  if (!pending && !raised_by && !holds_gradients_) return;
  optim::FoundInf nonfinite = optim::FoundInf::reset_on(cpu);
  if (pending && !holds_gradients_ && !keeps_gradients_scaled(*core, *optimizer())) {
    const NoGradNoCasts plain_ops;
    std::vector<GradientSum> sums;
    try {
      collect(seen, *pending, sums);
      unscale(std::move(sums), nonfinite);
      finish();
    } catch (const StateError&) {}  // not reduced over all processes: stays pending, is dropped
  }
  const bool drops =
      nonfinite.raised() || pending || holds_gradients_ || (raised_by && found.raised());
  if (drops) optimizer()->zero_grad();
}

void AmpOptimizerState::forget_iteration() {
  if (std::exchange(raised_by, nullptr)) found.reset();
  for (const optim::FoundInf& flag : delayed) flag.reset();
  stored_error = nullptr;
  optimizer()->zero_grad();
}

void AmpOptimizerState::require_own(std::string_view op, const SessionCore* core,
                                    std::span<const Slot> slots,
                                    const std::function<std::string(const Tensor&)>& name_of) {
  for (const Slot& slot : slots) {
    const GradState* const state = find_grad_state(slot.param);
    if (!state || state->session_holders == 0 || state->session == core) continue;
    std::string weight = name_of(slot.param);
    if (weight.empty())
      weight = static_cast<const SessionCore*>(state->session)->name_of(slot.param);
    fail<StateError>(
        op, {.what = "a weight belongs to an optimizer of another session",
             .got = str(weight.empty() ? "a weight" : "\"" + weight + "\"", ", ", slot.param),
             .expected = "all optimizers of a weight in one session",
             .hint = "pass them to one amp::initialize, or close the other session"});
  }
}

void AmpOptimizerState::hold(std::span<Slot> slots) {
  if (!core->enabled()) return;
  for (const Slot& slot : slots) {
    GradState& state = grad_state(slot.param);
    state.session = core.get();
    ++state.session_holders;
  }
}

void AmpOptimizerState::before_add(Optimizer& optimizer, std::span<Slot> slots) {
  if (!core->enabled()) return;
  require_own("add_param_group", core.get(), slots,
              [&](const Tensor& param) { return core->name_of(param); });
  MasterChanges changes(core->masters);
  create_masters(*core, optimizer, slots, changes);
  for (const Slot& slot : slots) (void)grad_state(slot.param);  // hold() must not allocate
  changes.commit();
  hold(slots);
}

/** Updates the masters of 16-bit parameters that the program has written to, as a step does. */
void AmpOptimizerState::before_replay(Optimizer& optimizer) {
  bring_masters_up_to_date(*core, optimizer);
}

void AmpOptimizerState::after_replay(Optimizer& optimizer) {
  masters_in_step(*core, optimizer);
  if (!core->enabled()) return;
  ++steps;
  watch_gradients(1, false, false);
}

void AmpOptimizerState::capture_abandoned(Optimizer&) noexcept {
  raised_by = nullptr;
  forget_gradients();
}

void AmpOptimizerState::detached(Optimizer& optimizer) noexcept {
  each_slot(optimizer, [&](Slot& slot) {
    slot.master = {};
    GradState* const state = find_grad_state(slot.param);
    if (state && state->session == core.get() && state->session_holders > 0)
      --state->session_holders;
  });
  std::erase(core->optimizers, this);
  clock = nullptr;
}

}  // namespace mezzo::amp
