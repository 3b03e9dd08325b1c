#include "grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../autograd/grad_mode.h"
#include "../../tensor/text/text.h"
#include "../weights/optimizer_masters.h"
#include "amp_optimizer_state.h"
#include "divergence.h"
#include "gradient_check.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::StepResult;

// ---- options ------------------------------------------------------------------------------------

namespace {

/** Errors: ValueError. */
ScaleState initial_state(const GradScalerOptions& o) {
  if (o.max_consecutive_skips < 0)
    fail<ValueError>("GradScaler", {.what = "max_consecutive_skips is negative",
                                    .got = str(o.max_consecutive_skips),
                                    .expected = "0 (never) or a count"});
  return {.growth = o.growth_factor,
          .backoff = o.backoff_factor,
          .least = o.min_scale.value_or(0),
          .most = o.max_scale.value_or(std::numeric_limits<double>::infinity()),
          .window = o.growth_interval,
          .hysteresis = o.hysteresis,
          .is_f32 = true,
          .stops_at_most = false,
          .scale = o.init_scale,
          .tolerance = o.hysteresis};
}

}  // namespace

// ---- construction -------------------------------------------------------------------------------

GradScaler::GradScaler(const GradScalerOptions& options)
    : scaler_(std::make_shared<LossScaler>(initial_state(options))),
      enabled_(options.enabled),
      max_consecutive_skips_(options.max_consecutive_skips) {
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
  if (const auto link = AmpOptimizerState::of(optimizer); link && link->core->enabled())
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
    if (drops_overflows && state->in_use()) state->found.reset();
    state->unscaled = state->stepped = state->had_gradients = false;
  }
  scaled_since_update_ = false;
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
  used_ = scaled_since_update_ = true;
  return scaler_->times(x);
}

/** Raises the optimizer's flag for a non-finite gradient, and unscales the gradients if
 *  `unscales`. */
void GradScaler::examine(AmpOptimizerState& state, bool unscales) {
  const NoGradNoCasts plain_ops;
  const Optimizer& optimizer = *state.optimizer();
  std::vector<GradientSum> sums = gradients_of(
      optimizer, state.index, unscales ? "GradScaler.unscale_" : "GradScaler.step", unscales);
  Receivers receivers;
  add_receivers(optimizer, receivers);
  state.had_gradients = !sums.empty();
  if (sums.empty() && receivers.empty()) return;
  const Device device = sums.empty() ? optimizer.params()[0].device() : sums[0].tensors.x.device();
  const optim::FoundInf& found = move_to(device, state.found);
  if (unscales && !sums.empty()) {
    const ScaleValue scale = scaler_->on(device);
    for (GradientSum& sum : sums) sum.a = scale.inverse(sum.tensors.x.device());
  }
  unscale(std::move(sums), found);
  // The update of the scale depends on whether there were gradients.
  state.had_gradients = agree(receivers, *scaler_, found, state.had_gradients);
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
  const bool fused = !state.unscaled && optimizer.unscales_itself();
  if (!state.unscaled) examine(state, !fused);
  state.unscaled = !fused;  // if the step throws, the next must not unscale again
  const bool has_gradients = !gradients_of(optimizer, state.index, op, false).empty();
  StepResult result = StepResult::no_grads;
  try {
    optim::StepOptions with = options;
    if (fused && state.had_gradients)
      with.inv_scale = scaler_->on(state.found.word.device()).inverse(device_of_params(optimizer)) *
                       options.inv_scale.number;
    state.clock->observe(state.shared_from_this(), max_consecutive_skips_);
    if (has_gradients || state.found.raised()) result = optimizer.step(with, state.found);
  } catch (const DivergenceError&) {
    state.stepped = true;
    throw;
  } catch (...) {
    if (fused) state.found.reset();
    throw;
  }
  state.stepped = true;
  state.had_gradients |= !result.is_known() || result == StepResult::stepped;
  return result;
}

// ---- the scale ----------------------------------------------------------------------------------

void GradScaler::update() {
  constexpr std::string_view op = "GradScaler.update";
  const TraceRange range(op);
  if (!enabled_) return;
  require_scaled(op);
  const std::vector<AmpOptimizerState*> used = used_optimizers();
  if (used.empty()) refuse(op, "neither unscale_ nor step was called since the last update");
  bool any = false;
  for (AmpOptimizerState* const state : used) {
    any = any || state->had_gradients;
    scaler_->finish_step(*state->clock, state->found,
                         {.notes = true, .completes = state == used.back(), .any = any});
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
    if (state->optimizer() == &optimizer) return state->in_use() && state->found.raised();
  return false;
}

// ---- saving and loading -------------------------------------------------------------------------

namespace {

constexpr std::string_view kLoad = "GradScaler.load_state_dict";

/** Calls f with the name and place of each entry of a state_dict. */
template <class State, class F> void for_each_entry(State& state, const F& f) {
  f("scale", state.scale);
  f("growth_factor", state.growth);
  f("backoff_factor", state.backoff);
  f("growth_interval", state.window);
  f("_growth_tracker", state.unskipped);
  if (state.hysteresis > 1) f("hysteresis_tracker", state.tolerance);
}

/** Converts a saved number. Errors: ValueError for a count that is no whole number up to 2^30. */
template <class T> T checked(std::string_view name, double saved) {
  if constexpr (std::is_integral_v<T>)
    if (!(saved >= 0 && saved <= 0x1p30 && saved == std::floor(saved)))
      fail<ValueError>(
          kLoad, {.what = str(name, " is out of range"), .got = str(saved), .expected = "a count"});
  return static_cast<T>(saved);
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

std::function<void()> GradScaler::stage_state_dict(const std::map<std::string, double>& saved) {
  if (!enabled_) return [] {};
  std::map<std::string, double> unknown = saved;
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
