#include "grad_scaler.h"

#include <cmath>
#include <limits>

#include "../../autograd/grad_mode.h"
#include "../../autograd/ops/operators.h"
#include "../../optim/device_step_state.h"
#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"
#include "agreement.h"
#include "amp_optimizer_state.h"
#include "divergence.h"
#include "scale_call.h"

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

/** Throws unless the scale is positive and finite, also in f32. Errors: ValueError. */
void require_scale(std::string_view what, double scale) {
  require_in_range(std::isfinite(scale) && scale > 0 && std::isfinite(static_cast<float>(scale)) &&
                       static_cast<float>(scale) > 0,
                   what, scale, "a finite number > 0");
}

/** Throws unless all options are in range. Errors: ValueError. */
void check(const GradScalerOptions& o) {
  require_scale("init_scale", o.init_scale);
  require_in_range(std::isfinite(o.growth_factor) && o.growth_factor > 1, "growth_factor",
                   o.growth_factor, "a number > 1");
  require_in_range(o.backoff_factor > 0 && o.backoff_factor < 1, "backoff_factor", o.backoff_factor,
                   "a number in (0, 1)");
  require_in_range(o.growth_interval >= 1, "growth_interval", o.growth_interval, "at least 1");
  require_in_range(o.hysteresis >= 1, "hysteresis", o.hysteresis, "at least 1");
  require_in_range(o.max_consecutive_skips >= 0, "max_consecutive_skips", o.max_consecutive_skips,
                   "0 (never) or a count");
  if (o.min_scale) require_scale("min_scale", *o.min_scale);
  if (o.max_scale) require_scale("max_scale", *o.max_scale);
  if (o.min_scale && o.max_scale)
    require_in_range(*o.min_scale <= *o.max_scale, "min_scale", *o.min_scale, "at most max_scale");
}

double to_f32(double scale) { return static_cast<double>(static_cast<float>(scale)); }

ScaleState initial_state(const GradScalerOptions& o) {
  return {.scale = to_f32(o.init_scale), .tolerance = o.hysteresis};
}

ScaleRule rule_of(const GradScalerOptions& o) {
  return {.growth = o.growth_factor,
          .backoff = o.backoff_factor,
          .least = o.min_scale.value_or(kScaleFloor),
          .most = o.max_scale.value_or(std::numeric_limits<double>::infinity()),
          .window = o.growth_interval,
          .tolerance = o.hysteresis,
          .is_f32 = true,
          .stops_at_most = false};
}

}  // namespace

void GradScaler::set_options(const GradScalerOptions& options) {
  check(options);
  scaler_.set_rule(rule_of(options));
  options_ = options;
}

void GradScaler::set_growth_factor(double factor) {
  GradScalerOptions changed = options_;
  changed.growth_factor = factor;
  set_options(changed);
}

void GradScaler::set_backoff_factor(double factor) {
  GradScalerOptions changed = options_;
  changed.backoff_factor = factor;
  set_options(changed);
}

void GradScaler::set_growth_interval(int interval) {
  GradScalerOptions changed = options_;
  changed.growth_interval = interval;
  set_options(changed);
}

// ---- construction -------------------------------------------------------------------------------

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_((check(options), options)), scaler_(rule_of(options), initial_state(options)) {
  connect();
}

GradScaler::GradScaler(const GradScaler& other)
    : options_((other.require_between_updates(), other.options_)),
      scaler_(other.scaler_),
      used_(other.used_) {
  connect();
}

GradScaler& GradScaler::operator=(const GradScaler& other) {
  other.require_between_updates();
  drop_overflows();
  scaler_ = other.scaler_;
  options_ = other.options_;
  used_ = other.used_;
  return *this;
}

GradScaler::~GradScaler() = default;

/** Sets the functions that the loss scaler calls. */
void GradScaler::connect() {
  scaler_.set_gradient_namer(
      [this](const optim::NonfiniteLocation& noted) { return text_of(noted); });
  scaler_.set_abandoned([this] { end_iteration(); });
}

std::string GradScaler::text_of(const optim::NonfiniteLocation& noted) const {
  for (const auto& [key, state] : optimizers_)
    if (state->number == optimizer_of(noted) && state->clock->owner())
      return nonfinite_gradient_text(*state->clock->owner(), noted);
  return {};
}

// ---- the iteration ------------------------------------------------------------------------------

bool GradScaler::any_in_use() const {
  for (const auto& [key, state] : optimizers_)
    if (state->stage != Stage::ready) return true;
  return false;
}

void GradScaler::end_iteration() {
  for (const auto& [key, state] : optimizers_) {
    state->stage = Stage::ready;
    state->had_gradients = false;
  }
  scaled_since_update_ = false;
}

/** Ends the iteration without an update of the scale. */
void GradScaler::drop_overflows() {
  for (const auto& [key, state] : optimizers_)
    if (state->stage != Stage::ready && state->found.flag.defined()) state->found.reset();
  end_iteration();
}

void GradScaler::require_between_updates() const {
  if (any_in_use())
    fail<StateError>("GradScaler", {.what = "cannot be copied in the middle of an iteration",
                                    .hint = "call update() first"});
}

void GradScaler::require_scaled(std::string_view op) const {
  if (!used_)
    fail<StateError>(op, {.what = "no loss has been scaled yet",
                          .hint = "call scaler.scale(loss).backward() first"});
}

Tensor GradScaler::scale(const Tensor& x) {
  if (!options_.enabled) return x;
  if (!x.defined() || !is_floating(x.dtype()))
    fail<DtypeError>("GradScaler.scale",
                     {.what = "expected a floating-point tensor", .got = str(x)});
  used_ = scaled_since_update_ = true;
  const Tensor wide = is_low(x.dtype()) ? x.to(f32) : x;
  if (scaler_.lives_on(x.device())) return wide * scaler_.on(x.device(), wide.dtype());
  return wide * scaler_.loss_scale();
}

/** Returns what is known of an optimizer. Errors: StateError if it belongs to a session, or before
 *  any scale(). */
GradScaler::PerOptimizer& GradScaler::state_of(std::string_view op, Optimizer& optimizer) {
  const auto* link = dynamic_cast<const AmpOptimizerState*>(optimizer.hooks());
  if (link && link->core()->enabled())
    fail<StateError>(op, {.what = "this optimizer belongs to a session, which scales losses itself",
                          .got = std::string(optimizer.type_name()),
                          .hint = "use amp::scale_loss, or close the session"});
  optimizer.refuse_closure(op);
  require_scaled(op);
  const auto found = optimizers_.find(&optimizer);
  // The entry may be that of a destroyed optimizer at the same address.
  if (found != optimizers_.end() && found->second->clock->owner() == &optimizer)
    return *found->second;
  const auto state = std::make_shared<PerOptimizer>();
  state->number = found == optimizers_.end() ? optimizers_.size() : found->second->number;
  state->scaler = &scaler_;
  state->clock = optimizer.clock().shared_from_this();
  return *(optimizers_[&optimizer] = state);
}

namespace {

/** Returns the gradients to check, numbered. To unscale in place, replaces a gradient with gaps or
 *  repeated elements by a dense copy. Errors: DtypeError for an f16 gradient to unscale. */
std::vector<optim::AxpbyTensors> work_of(const Optimizer& optimizer, std::size_t number,
                                         bool unscales) {
  std::vector<optim::AxpbyTensors> work;
  std::size_t position = 0;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const optim::Slot& slot : optimizer.slots(group)) {
      const std::size_t here = position++;
      const Tensor grad = unscales ? slot.param.grad() : slot.target().grad();
      if (!grad.defined()) continue;
      require_reduced(slot.param, unscales ? "GradScaler.unscale_" : "GradScaler.step",
                      "leave no_sync before the last backward");
      if (unscales && grad.dtype() == f16)
        fail<DtypeError>(
            "GradScaler.unscale_",
            {.what = str("parameter ", here, " has an f16 gradient"),
             .got = str(grad),
             .expected = "bf16, f32 or f64",
             .hint = "keep the parameters in f32 and run the forward pass under autocast"});
      const bool is_dense = !unscales || same_dense_layout(grad, grad);
      const Tensor dense = is_dense ? grad.detach() : grad.detach().contiguous();
      work.push_back({dense, {}, unscales ? dense : Tensor{}, gradient_number(number, here)});
      if (!is_dense) slot.param.set_grad(dense);
    }
  return work;
}

bool has_gradients(const Optimizer& optimizer) {
  for (const Tensor& p : optimizer.params())
    if (p.grad().defined()) return true;
  return false;
}

}  // namespace

/** Raises the optimizer's flag for a non-finite gradient, and unscales the gradients if
 *  `unscales`. */
void GradScaler::examine(Optimizer& optimizer, PerOptimizer& state, bool unscales) {
  const NoGradNoCasts plain_ops;
  const std::vector<optim::AxpbyTensors> work = work_of(optimizer, state.number, unscales);
  Receivers receivers;
  add_receivers(optimizer, receivers);
  state.had_gradients = !work.empty();
  if (work.empty() && receivers.empty()) return;
  const Device device = work.empty() ? optimizer.params()[0].device() : work[0].x.device();
  state.found = moved_to(device, state.found);
  if (unscales)
    optim::axpby(work, scaler_.inverse(device), 1, optim::CheckFinite::x, state.found);
  else
    optim::check_finite(work, state.found);
  // The update of the scale depends on whether there were gradients.
  state.had_gradients = agree(receivers, scaler_, state.found, state.had_gradients);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  constexpr std::string_view op = "GradScaler.unscale_";
  const TraceRange range(op);
  if (!options_.enabled) return;
  PerOptimizer& state = state_of(op, optimizer);
  if (state.stage == Stage::unscaled)
    fail<StateError>(op, {.what = "unscale_ was called already since the last update"});
  if (state.stage == Stage::stepped)
    fail<StateError>(op, {.what = "unscale_ was called after step", .hint = "call update() first"});
  examine(optimizer, state, true);
  state.stage = Stage::unscaled;
}

StepResult GradScaler::step(Optimizer& optimizer, const optim::StepOptions& options) {
  constexpr std::string_view op = "GradScaler.step";
  const TraceRange range(op);
  if (!options_.enabled) return optimizer.step(options);
  PerOptimizer& state = state_of(op, optimizer);
  if (state.stage == Stage::stepped)
    fail<StateError>(op, {.what = "step was called already since the last update",
                          .hint = "call update() first"});
  optim::StepCondition condition{.skip_limit = options_.max_consecutive_skips,
                                 .observer = optimizers_.find(&optimizer)->second};
  const bool fused = state.stage == Stage::ready && optimizer.unscales_itself();
  if (state.stage == Stage::ready) examine(optimizer, state, !fused);
  if (!fused) state.stage = Stage::unscaled;  // if the step throws, the next must not unscale again
  if (state.found.flag.defined()) condition.found = state.found;
  StepResult result = StepResult::no_grads;
  try {
    if (fused && state.had_gradients) {
      condition.unscale = scaler_.inverse(state.found.flag.device());
      condition.writes_back = true;
    }
    if (has_gradients(optimizer) || (condition.found.flag.defined() && condition.found.raised()))
      result = optimizer.step(options, condition);
  } catch (const DivergenceError&) {
    state.stage = Stage::stepped;
    throw;
  } catch (...) {
    if (fused && state.found.flag.defined()) state.found.reset();
    throw;
  }
  state.stage = Stage::stepped;
  state.had_gradients = state.had_gradients || !result.is_known() || result == StepResult::stepped;
  return result;
}

void GradScaler::PerOptimizer::skips_found(Optimizer& optimizer, std::int64_t,
                                           std::int64_t diverged_after) {
  if (diverged_after > 0)
    fail_diverged(optimizer, std::string(optimizer.type_name()), scaler->loss_scale(),
                  diverged_after);
}

// ---- the scale ----------------------------------------------------------------------------------

/** Returns the call that adds an optimizer's flag to the check of this iteration and counts its
 *  step. Waits for a device other than the scale's. */
ScaleCall GradScaler::call_of(PerOptimizer& state, const ScaleCall& blank) {
  ScaleCall call = blank;
  call.any = state.had_gradients;
  if (!state.found.flag.defined()) return call;
  if (state.found.flag.device() == scaler_.device()) {
    call.noted = call.reset = pointers_of(state.found);
    if (state.clock->device() == scaler_.device())
      if (const auto count = state.clock->take_pending()) call.clock = *count;
  } else {
    state.clock->flush();
    call.found = state.found.raised();
    state.found.reset();
  }
  return call;
}

void GradScaler::update() {
  constexpr std::string_view op = "GradScaler.update";
  const TraceRange range(op);
  if (!options_.enabled) return;
  require_scaled(op);
  std::size_t left = 0;
  Device device = scaler_.device();
  for (const auto& [key, state] : optimizers_) {
    if (state->stage == Stage::ready) continue;
    if (left++ == 0 && state->found.flag.defined()) device = state->found.flag.device();
  }
  if (left == 0)
    fail<StateError>(op, {.what = "neither unscale_ nor step was called since the last update"});
  scaler_.make_room();
  const ScaleCall blank = scaler_.call(device);
  for (const auto& [key, state] : optimizers_) {
    if (state->stage == Stage::ready) continue;
    ScaleCall call = call_of(*state, blank);
    call.completes = --left == 0;
    scaler_.run(call);
  }
  end_iteration();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  require_scaled("GradScaler.update");
  require_scale("new_scale", new_scale);
  ScaleState changed = scaler_.state();
  changed.scale = to_f32(new_scale);
  scaler_.change(changed, ScaleReason::set, true);
  drop_overflows();
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  if (Capture::current())
    fail<StateError>("GradScaler.get_scale",
                     {.what = "the scale is read while a step is being captured",
                      .hint = "read it after a replay"});
  return scaler_.loss_scale();
}

bool GradScaler::found_inf(const Optimizer& optimizer) const {
  const auto found = optimizers_.find(&optimizer);
  if (found == optimizers_.end() || found->second->stage == Stage::ready) return false;
  const optim::FoundInf& flag = found->second->found;
  return flag.flag.defined() && flag.raised();
}

// ---- saving and loading -------------------------------------------------------------------------

std::map<std::string, double> GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  const ScaleState& state = scaler_.state();
  std::map<std::string, double> out{{"scale", state.scale},
                                    {"growth_factor", options_.growth_factor},
                                    {"backoff_factor", options_.backoff_factor},
                                    {"growth_interval", options_.growth_interval},
                                    {"_growth_tracker", static_cast<double>(state.unskipped)}};
  if (options_.hysteresis > 1) out["hysteresis_tracker"] = static_cast<double>(state.tolerance);
  return out;
}

GradScaler::Saved GradScaler::checked(const std::map<std::string, double>& saved) const {
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
    return static_cast<int>(value);
  };
  GradScalerOptions changed = options_;
  changed.growth_factor = saved.at("growth_factor");
  changed.backoff_factor = saved.at("backoff_factor");
  changed.growth_interval = count("growth_interval", 1, 0x1p30);
  check(changed);
  require_scale("scale", saved.at("scale"));
  const int tracker = count("_growth_tracker", 0, 0x1p30);
  const std::int64_t tolerance = options_.hysteresis > 1
                                     ? count("hysteresis_tracker", 0, options_.hysteresis)
                                     : scaler_.state().tolerance;
  return {changed, {to_f32(saved.at("scale")), tracker, tolerance}};
}

void GradScaler::check_state_dict(const std::map<std::string, double>& saved) const {
  if (options_.enabled) (void)checked(saved);
}

std::function<void()> GradScaler::stage_state_dict(const std::map<std::string, double>& saved) {
  if (!options_.enabled) return [] {};
  const auto [options, state] = checked(saved);
  scaler_.make_room();
  return [this, options = options, state = state] {
    set_options(options);
    scaler_.change(state, ScaleReason::restored, false);
    drop_overflows();
  };
}

void GradScaler::load_state_dict(const std::map<std::string, double>& saved) {
  stage_state_dict(saved)();
}

}  // namespace mezzo::amp
