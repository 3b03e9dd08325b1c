#include "grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../autograd/grad_mode.h"
#include "../../tensor/text/text.h"
#include "amp_optimizer_state.h"
#include "divergence.h"
#include "gradient_check.h"
#include "scaled_optimizer.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::StepResult;

// ---- options ------------------------------------------------------------------------------------

namespace {

/** Throws unless `holds`. Errors: ValueError that names `what`. */
void require_in_range(bool holds, std::string_view what, double got, std::string_view expected) {
  if (!holds)
    fail<ValueError>("GradScaler", {.what = str(what, " is out of range"),
                                    .got = str(got),
                                    .expected = std::string(expected)});
}

/** Returns the scale in f32. Errors: ValueError unless it is positive and finite there. */
double scale_in_f32(std::string_view what, double scale) {
  const auto narrow = static_cast<float>(scale);
  require_in_range(std::isfinite(narrow) && narrow > 0, what, scale, "a finite number > 0");
  return narrow;
}

/** Errors: ValueError. */
ScaleState initial_state(const GradScalerOptions& o) {
  const double least = o.min_scale.value_or(1), most = o.max_scale.value_or(least);
  require_in_range(o.hysteresis >= 1, "hysteresis", o.hysteresis, "at least 1");
  require_in_range(o.max_consecutive_skips >= 0, "max_consecutive_skips", o.max_consecutive_skips,
                   "0 (never) or a count");
  (void)scale_in_f32("min_scale", least);
  (void)scale_in_f32("max_scale", most);
  require_in_range(!o.min_scale || least <= most, "min_scale", least, "at most max_scale");
  return {.growth = o.growth_factor,
          .backoff = o.backoff_factor,
          .least = o.min_scale.value_or(0),
          .most = o.max_scale.value_or(std::numeric_limits<double>::infinity()),
          .window = o.growth_interval,
          .hysteresis = o.hysteresis,
          .is_f32 = true,
          .stops_at_most = false,
          .scale = scale_in_f32("init_scale", o.init_scale),
          .tolerance = o.hysteresis};
}

}  // namespace

/** Throws unless the settings that can change are in range. Errors: ValueError. */
void GradScaler::check_rule(const ScaleState& rule) {
  require_in_range(std::isfinite(rule.growth) && rule.growth > 1, "growth_factor", rule.growth,
                   "a number > 1");
  require_in_range(rule.backoff > 0 && rule.backoff < 1, "backoff_factor", rule.backoff,
                   "a number in (0, 1)");
  require_in_range(rule.window >= 1, "growth_interval", static_cast<double>(rule.window),
                   "at least 1");
}

// ---- construction -------------------------------------------------------------------------------

GradScaler::GradScaler(const GradScalerOptions& options)
    : scaler_(std::make_shared<LossScaler>(initial_state(options))),
      enabled_(options.enabled),
      max_consecutive_skips_(options.max_consecutive_skips) {
  check_rule(scaler_->rule());
  scaler_->on_abandon = [this] { end_iteration(false); };
}

GradScaler::GradScaler(const GradScaler& other) : GradScaler(GradScalerOptions{}) { *this = other; }

GradScaler& GradScaler::operator=(const GradScaler& other) {
  if (!other.used_optimizers().empty())
    refuse("GradScaler", "cannot be copied in the middle of an iteration", "call update() first");
  end_iteration(true);
  *scaler_ = *other.scaler_;
  enabled_ = other.enabled_;
  max_consecutive_skips_ = other.max_consecutive_skips_;
  used_ = other.used_;
  return *this;
}

GradScaler::~GradScaler() { scaler_->on_abandon = nullptr; }

// ---- optimizers ---------------------------------------------------------------------------------

/** Returns the state of an optimizer. Errors: StateError if it belongs to a session, before any
 *  scale(). */
ScaledOptimizer& GradScaler::state_of(std::string_view op, Optimizer& optimizer) {
  if (const auto link = AmpOptimizerState::of(optimizer); link && link->core->enabled())
    refuse(op, str(optimizer.type_name(), " belongs to a session, which scales losses itself"),
           "use amp::scale_loss, or close the session");
  optimizer.refuse_closure(op);
  require_scaled(op);
  for (const auto& known : optimizers_)
    if (known->optimizer() == &optimizer) return *known;
  std::erase_if(optimizers_, [](const auto& one) { return !one->optimizer() && !one->in_use(); });
  optimizers_.push_back(std::make_shared<ScaledOptimizer>(optimizer, *scaler_->optimizers));
  optimizers_.back()->scaler = scaler_.get();
  return *optimizers_.back();
}

std::vector<ScaledOptimizer*> GradScaler::used_optimizers() const {
  std::vector<ScaledOptimizer*> used;
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
void GradScaler::examine(ScaledOptimizer& state, bool unscales) {
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
  ScaledOptimizer& state = state_of(op, optimizer);
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
  ScaledOptimizer& state = state_of(op, optimizer);
  if (state.stepped)
    refuse(op, "step was called already since the last update", "call update() first");
  const bool fused = !state.unscaled && optimizer.unscales_itself();
  if (!state.unscaled) examine(state, !fused);
  state.unscaled = !fused;  // if the step throws, the next must not unscale again
  const std::vector<Tensor> params = optimizer.params();
  const bool has_gradients =
      std::any_of(params.begin(), params.end(), [](const Tensor& p) { return p.grad().defined(); });
  StepResult result = StepResult::no_grads;
  try {
    optim::StepCondition condition{.found = state.found,
                                   .skip_limit = max_consecutive_skips_,
                                   .observer = state.shared_from_this()};
    if (fused && state.had_gradients) {
      const Device device = state.found.flag.device();
      condition.unscale = scaler_->on(device).inverse(device);
      condition.writes_back = true;
    }
    if (has_gradients || state.found.raised()) result = optimizer.step(options, condition);
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
  const std::vector<ScaledOptimizer*> used = used_optimizers();
  if (used.empty()) refuse(op, "neither unscale_ nor step was called since the last update");
  if (const Tensor& flag = used[0]->found.flag; flag.defined()) scaler_->move_to(flag.device());
  for (const ScaledOptimizer* state : used)
    scaler_->finish_step(
        *state->clock, state->found,
        {.notes = true, .any = state->had_gradients, .completes = state == used.back()});
  end_iteration(false);
}

void GradScaler::update(double new_scale) {
  if (!enabled_) return;
  require_scaled("GradScaler.update");
  ScaleState changed = scaler_->state();
  changed.scale = scale_in_f32("new_scale", new_scale);
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

std::map<std::string, double> GradScaler::state_dict() const {
  if (!enabled_) return {};
  const ScaleState& state = scaler_->state();
  std::map<std::string, double> out{{"scale", state.scale},
                                    {"growth_factor", state.growth},
                                    {"backoff_factor", state.backoff},
                                    {"growth_interval", static_cast<double>(state.window)},
                                    {"_growth_tracker", static_cast<double>(state.unskipped)}};
  if (state.hysteresis > 1) out["hysteresis_tracker"] = static_cast<double>(state.tolerance);
  return out;
}

/** Returns the present state with the saved values. Errors: ValueError. */
ScaleState GradScaler::checked(const std::map<std::string, double>& saved) const {
  constexpr std::string_view op = "GradScaler.load_state_dict";
  const std::map<std::string, double> expected = state_dict();
  for (const auto& [name, value] : saved)
    if (expected.count(name) == 0)
      fail<ValueError>(op, {.what = "unknown entry", .got = str("\"", name, "\"")});
  for (const auto& [name, value] : expected)
    if (saved.count(name) == 0)
      fail<ValueError>(op, {.what = "an entry is missing",
                            .expected = name,
                            .hint = "was it saved by a disabled scaler?"});
  const auto count = [&](const std::string& name, double least, double most) {
    const double value = saved.at(name);
    require_in_range(value >= least && value <= most && value == std::floor(value), name, value,
                     "a count");
    return static_cast<std::int64_t>(value);
  };
  ScaleState state = scaler_->state();
  state.growth = saved.at("growth_factor");
  state.backoff = saved.at("backoff_factor");
  state.window = count("growth_interval", 1, 0x1p30);
  check_rule(state);
  state.scale = scale_in_f32("scale", saved.at("scale"));
  state.unskipped = count("_growth_tracker", 0, 0x1p30);
  if (state.hysteresis > 1)
    state.tolerance = count("hysteresis_tracker", 0, static_cast<double>(state.hysteresis));
  return state;
}

std::function<void()> GradScaler::stage_state_dict(const std::map<std::string, double>& saved) {
  if (!enabled_) return [] {};
  return [this, state = checked(saved)] {
    scaler_->change(state, ScaleReason::restored);
    end_iteration(true);
  };
}

}  // namespace mezzo::amp
