#include "grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../autograd/hooks.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/text/text.h"
#include "../session_core.h"
#include "gradients.h"
#include "scale.h"
#include "scale_loss.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::Slot;
using optim::StepResult;

// ---- options ------------------------------------------------------------------------------------

namespace {

/** Errors: ValueError. */
ScaleState initial_state(const GradScalerOptions& o) {
  if (o.max_consecutive_skips < 0)
    fail<ValueError>("GradScaler", {.what = "max_consecutive_skips is negative",
                                    .got = str(o.max_consecutive_skips),
                                    .expected = "0 (never) or a count"});
  return {.growth_factor = o.growth_factor,
          .backoff_factor = o.backoff_factor,
          .min_scale = o.min_scale.value_or(0),
          .max_scale = o.max_scale.value_or(std::numeric_limits<double>::infinity()),
          .growth_interval = o.growth_interval,
          .hysteresis = o.hysteresis,
          .is_f32 = true,
          .stops_at_max = false,
          .scale = o.init_scale,
          .hysteresis_left = o.hysteresis};
}

}  // namespace

// ---- construction -------------------------------------------------------------------------------

GradScaler::GradScaler(const GradScalerOptions& options)
    : scaler_(std::make_shared<LossScaler>(initial_state(options))),
      enabled_(options.enabled),
      max_consecutive_skips_(options.max_consecutive_skips),
      passes_(std::make_shared<ScaledPasses>()) {
  scaler_->on_abandon = [this] { end_iteration(false); };
}

GradScaler::GradScaler(const GradScaler& other) : GradScaler(GradScalerOptions{}) { *this = other; }

GradScaler& GradScaler::operator=(const GradScaler& other) {
  if (!other.used_optimizers().empty())
    refuse("GradScaler", "cannot be copied in the middle of an iteration", "call update() first");
  end_iteration(true);
  scaler_->copy(*other.scaler_);
  enabled_ = other.enabled_;
  max_consecutive_skips_ = other.max_consecutive_skips_;
  used_ = other.used_;
  return *this;
}

GradScaler::~GradScaler() { scaler_->on_abandon = nullptr; }

// ---- optimizers ---------------------------------------------------------------------------------

/** Returns the state of an optimizer. Errors: StateError if it belongs to a session, before any
 *  scale(). */
AmpOptimizerState& GradScaler::state_of(std::string_view op, Optimizer& optimizer) {
  if (const auto state = AmpOptimizerState::of(optimizer); state && state->core->enabled())
    refuse(op, str(optimizer.type_name(), " belongs to a session, which scales losses itself"),
           "use amp::scale_loss, or close the session");
  optimizer.refuse_closure(op);
  require_scaled(op);
  for (const auto& known : optimizers_)
    if (known->optimizer() == &optimizer) return *known;
  std::erase_if(optimizers_, [](const auto& one) { return !one->optimizer() && !one->in_use(); });
  optimizers_.push_back(std::make_shared<AmpOptimizerState>(nullptr, scaler_.get(), optimizer));
  return *optimizers_.back();
}

std::vector<AmpOptimizerState*> GradScaler::used_optimizers() const {
  std::vector<AmpOptimizerState*> used;
  for (const auto& state : optimizers_)
    if (state->in_use()) used.push_back(state.get());
  return used;
}

void GradScaler::end_iteration(bool drops_overflows) {
  for (const auto& state : optimizers_) {
    if (drops_overflows && state->in_use()) state->found_inf.reset();
    state->unscaled = state->stepped = state->had_gradients = false;
  }
  scaled_since_update_ = false;
  ++iteration_;
  passes_->scaled = 0;
  passes_->before = backward_passes();
}

// ---- the iteration ------------------------------------------------------------------------------

void GradScaler::require_scaled(std::string_view op) const {
  if (!used_) refuse(op, "no loss has been scaled yet", "call scaler.scale(loss).backward() first");
}

Tensor GradScaler::scale(const Tensor& x) {
  if (!enabled_) return x;
  if (!x.defined() || !is_floating(x.dtype()))
    fail<DtypeError>("GradScaler.scale",
                     {.what = "expected a floating-point tensor", .got = str(x)});
  if (!used_) watch_clipping(passes_);
  used_ = scaled_since_update_ = true;
  scaler_->losses.note(x, iteration_);
  return watched(scaler_->times(x), passes_);
}

namespace {

/** Marks all gradients of the optimizer. */
void mark_gradients(const Optimizer& optimizer, GradientScale scale) {
  for (const Slot& slot : optimizer.slots()) mark_gradient(slot.param, scale);
}

/** Leaves only what is still scaled in x where y was unscaled before. */
void subtract_unscaled(const std::vector<AxpbyTensors>& sums) {
  for (const AxpbyTensors& sum : sums)
    if (sum.y.defined()) {
      const AxpbyTensors item{sum.x, sum.y, sum.x};
      optim::axpby({&item, 1}, 1, -1);
    }
}

}  // namespace

/** Returns true if a gradient of the optimizer, or a part of it, was unscaled before. Waits for the
 *  results of fused steps, if it may be: those that were skipped have not unscaled gradients. */
bool GradScaler::any_unscaled(const Optimizer& optimizer) {
  const auto is_marked = [](const Slot& slot) { return is_unscaled(gradient_scale(slot.param)); };
  if (!any_slot(optimizer, is_marked)) return false;
  for (const auto& state : optimizers_) {
    const std::optional<StepResult> result = std::exchange(state->fused_result, {});
    if (!result || !state->optimizer()) continue;
    const bool unscaled = *result == StepResult::stepped;
    for (const Slot& slot : state->optimizer()->slots()) {
      GradientMark mark = gradient_mark(slot.param);
      if (mark.scale != GradientScale::in_update) continue;
      mark.scale = GradientScale::unscaled;
      restore_gradient(slot.param, slot.param.grad(), unscaled ? mark : GradientMark{});
    }
  }
  return any_slot(optimizer, is_marked);
}

/** Throws if gradients are to be unscaled, and backward() ran since the last update, but not from a
 *  scaled loss. Errors: StateError. */
void GradScaler::require_backward(std::string_view op, const Optimizer& optimizer) const {
  if (!passes_->missed()) return;
  for (const Slot& slot : optimizer.slots()) {
    if (!slot.param.grad().defined() ||
        (is_unscaled(gradient_scale(slot.param)) && !written_since_mark(slot.param)))
      continue;
    fail<StateError>(
        op, {.what = "backward ran, but not from a scaled loss",
             .got = str("a gradient of ", slot.param, " that is not multiplied by the loss scale"),
             .expected = "scaler.scale(loss).backward()",
             .hint = "call zero_grad() to drop the gradients"});
  }
}

/** Throws if a backward pass from a scaled loss has added to gradients since they were unscaled.
 *  Errors: StateError. */
void GradScaler::require_no_later_backward(std::string_view op,
                                           const AmpOptimizerState& state) const {
  if (passes_->scaled == state.reached) return;
  for (const Slot& slot : state.optimizer()->slots()) {
    const Tensor grad = slot.param.grad();
    const GradientMark mark = gradient_mark(slot.param);
    if (!grad.defined() || (is_unscaled(mark.scale) && mark.part.is_same(grad))) continue;
    fail<StateError>(op, {.what = "backward ran after unscale_",
                          .got = str("a gradient of ", slot.param,
                                     " of which a part is multiplied by the loss scale"),
                          .expected = "unscale_ after all backward passes of the step"});
  }
}

/** Raises the optimizer's flag for a non-finite gradient, and unscales the gradients if
 *  `unscales`, unless they were unscaled before. */
void GradScaler::examine(AmpOptimizerState& state, bool unscales) {
  const NoGradNoCasts plain_ops;
  const Optimizer& optimizer = *state.optimizer();
  state.reached = passes_->scaled;
  (void)any_unscaled(optimizer);  // so that the marks are known
  std::vector<AxpbyTensors> sums = gradients_of(
      optimizer, state.index, unscales ? "GradScaler.unscale_" : "GradScaler.step", unscales);
  const std::shared_ptr<AmpOptimizerState> self = state.shared_from_this();
  const Receivers receivers = receivers_of({&self, 1});
  state.had_gradients = !sums.empty();
  if (sums.empty() && receivers.empty()) return;
  const Device device = sums.empty() ? optimizer.params()[0].device() : sums[0].x.device();
  const optim::FoundInf& found_inf = move_to(device, state.found_inf);
  ScaleValue scale;
  if (unscales && !sums.empty()) {
    scale = scaler_->on(device);
    subtract_unscaled(sums);
  }
  unscale(std::move(sums), found_inf, scale);
  if (unscales) mark_gradients(optimizer, GradientScale::unscaled);
  // The update of the scale depends on whether there were gradients.
  state.had_gradients = agree(receivers, *scaler_, found_inf, state.had_gradients);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  constexpr std::string_view op = "GradScaler.unscale_";
  const TraceRange range(op);
  if (!enabled_) return;
  AmpOptimizerState& state = state_of(op, optimizer);
  if (state.in_use())
    refuse(op,
           state.stepped ? "unscale_ was called after step"
                         : "unscale_ was called already since the last update",
           "call update() first");
  require_backward(op, optimizer);
  examine(state, true);
  state.unscaled = true;
}

StepResult GradScaler::step(Optimizer& optimizer, const optim::StepOptions& options) {
  constexpr std::string_view op = "GradScaler.step";
  const TraceRange range(op);
  if (!enabled_) return optimizer.step(options);
  AmpOptimizerState& state = state_of(op, optimizer);
  if (state.stepped)
    refuse(op, "step was called already since the last update", "call update() first");
  if (state.unscaled)
    require_no_later_backward(op, state);
  else
    require_backward(op, optimizer);
  const bool fused = !state.unscaled && optimizer.unscales_itself() && !any_unscaled(optimizer);
  if (!state.unscaled) examine(state, !fused);
  state.unscaled = !fused;  // if the step throws, the next must not unscale again
  const bool has_gradients = !gradients_of(optimizer, state.index, op, false).empty();
  StepResult result = StepResult::no_grads;
  try {
    optim::StepOptions with = options;
    if (fused && state.had_gradients) {
      const Device device = state.found_inf.word.device();
      const bool on_several =
          any_slot(optimizer, [&](const Slot& slot) { return !(slot.param.device() == device); });
      with.inv_scale =
          scaler_->on(device).inverse(on_several ? cpu : device) * options.inv_scale.number;
    }
    state.step_state->observe(state.shared_from_this(), max_consecutive_skips_);
    if (has_gradients || state.found_inf.raised()) result = optimizer.step(with, state.found_inf);
  } catch (const DivergenceError&) {
    state.stepped = true;
    throw;
  } catch (...) {
    if (fused) state.found_inf.reset();
    throw;
  }
  state.stepped = true;
  const bool may_have_stepped = !result.is_known() || result == StepResult::stepped;
  state.had_gradients |= may_have_stepped;
  // A fused step unscales within its update, unless it is skipped.
  if (!fused || (result.is_known() && result == StepResult::stepped)) {
    mark_gradients(optimizer, GradientScale::unscaled);
  } else if (!result.is_known() && !Capture::current()) {
    mark_gradients(optimizer, GradientScale::in_update);
    state.fused_result = result;
  }
  return result;
}

// ---- the scale ----------------------------------------------------------------------------------

void GradScaler::update() {
  constexpr std::string_view op = "GradScaler.update";
  const TraceRange range(op);
  if (!enabled_) return;
  require_scaled(op);
  const std::vector<AmpOptimizerState*> used = used_optimizers();
  if (used.empty())
    refuse(op, "neither unscale_ nor step was called since the last update",
           "call scaler.step(optimizer) instead of optimizer.step()");
  bool any = false;
  for (AmpOptimizerState* const state : used) {
    any = any || state->had_gradients;
    scaler_->add(state->found_inf, state == used.back(), any);
  }
  end_iteration(false);
}

void GradScaler::update(double new_scale) {
  if (!enabled_) return;
  require_scaled("GradScaler.update");
  ScaleState changed = scaler_->state();
  changed.scale = new_scale;
  ++changed.checks;
  scaler_->change(changed, ScaleReason::set);
  end_iteration(true);
}

double GradScaler::get_scale() const {
  if (!enabled_) return 1;
  if (Capture::current())
    refuse("GradScaler.get_scale", "the scale is read while a step is being captured",
           "read it after a replay");
  return scaler_->loss_scale();
}

bool GradScaler::found_inf(const Optimizer& optimizer) const {
  for (const auto& state : optimizers_)
    if (state->optimizer() == &optimizer) return state->in_use() && state->found_inf.raised();
  return false;
}

// ---- saving and loading -------------------------------------------------------------------------

namespace {

constexpr std::string_view kLoad = "GradScaler.load_state_dict";

/** Calls f with the name and value of each entry of a state_dict. */
template <class State, class F> void for_each_entry(State& state, const F& f) {
  f("scale", state.scale);
  f("growth_factor", state.growth_factor);
  f("backoff_factor", state.backoff_factor);
  f("growth_interval", state.growth_interval);
  f("_growth_tracker", state.unskipped);
  if (state.hysteresis > 1) f("hysteresis_tracker", state.hysteresis_left);
}

/** Converts a saved number. Errors: ValueError for a count that is no whole number up to 2^30. */
template <class T> T checked(std::string_view name, double saved) {
  if constexpr (std::is_integral_v<T>)
    if (!(saved >= 0 && saved <= 0x1p30 && saved == std::floor(saved)))
      fail<ValueError>(
          kLoad, {.what = str(name, " is out of range"), .got = str(saved), .expected = "a count"});
  return static_cast<T>(saved);
}

mezzo::StateDict with_numbers(const std::map<std::string, double>& numbers) {
  mezzo::StateDict out;
  out.numbers.insert(numbers.begin(), numbers.end());
  return out;
}

}  // namespace

std::map<std::string, double> GradScaler::state_dict() const {
  std::map<std::string, double> out;
  if (enabled_)
    for_each_entry(scaler_->state(), [&](const char* name, const auto& value) {
      out[name] = static_cast<double>(value);
    });
  return out;
}

void GradScaler::load_state_dict(const std::map<std::string, double>& saved) {
  stage(with_numbers(saved))();
}

void GradScaler::check_state_dict(const std::map<std::string, double>& saved) {
  (void)stage(with_numbers(saved));
}

std::function<void()> GradScaler::stage(const mezzo::StateDict& saved) {
  if (!enabled_) return [] {};
  auto unknown = saved.numbers;
  ScaleState state = scaler_->state();
  for_each_entry(state, [&](const char* name, auto& value) {
    const auto entry = unknown.extract(name);
    if (entry.empty())
      fail<ValueError>(kLoad, {.what = "an entry is missing",
                               .expected = name,
                               .hint = "was it saved by a disabled scaler?"});
    value = checked<std::remove_reference_t<decltype(value)>>(name, entry.mapped());
  });
  if (!unknown.empty())
    fail<ValueError>(kLoad,
                     {.what = "unknown entry", .got = str("\"", unknown.begin()->first, "\"")});
  LossScaler::check(state);
  return [this, state] {
    scaler_->change(state, ScaleReason::restored);
    end_iteration(true);
  };
}

}  // namespace mezzo::amp
