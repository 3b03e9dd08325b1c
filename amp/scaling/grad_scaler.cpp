#include "grad_scaler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../autograd/grad_mode.h"
#include "../../optim/device_step_state.h"
#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"
#include "amp_optimizer_state.h"
#include "divergence.h"
#include "gradient_check.h"
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
  const auto narrow = static_cast<float>(scale);
  require_in_range(std::isfinite(narrow) && narrow > 0, what, scale, "a finite number > 0");
}

/** Throws unless all options are in range. Errors: ValueError. */
void check(const GradScalerOptions& o) {
  const double least = o.min_scale.value_or(1), most = o.max_scale.value_or(least),
               growth = o.growth_factor, backoff = o.backoff_factor;
  require_scale("init_scale", o.init_scale);
  require_in_range(std::isfinite(growth) && growth > 1, "growth_factor", growth, "a number > 1");
  require_in_range(backoff > 0 && backoff < 1, "backoff_factor", backoff, "a number in (0, 1)");
  require_in_range(o.growth_interval >= 1, "growth_interval", o.growth_interval, "at least 1");
  require_in_range(o.hysteresis >= 1, "hysteresis", o.hysteresis, "at least 1");
  require_in_range(o.max_consecutive_skips >= 0, "max_consecutive_skips", o.max_consecutive_skips,
                   "0 (never) or a count");
  require_scale("min_scale", least);
  require_scale("max_scale", most);
  require_in_range(!o.min_scale || least <= most, "min_scale", least, "at most max_scale");
}

double to_f32(double scale) { return static_cast<double>(static_cast<float>(scale)); }

/** Errors: ValueError. */
ScaleRule rule_of(const GradScalerOptions& o) {
  check(o);
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
  scaler_.set_rule(rule_of(options));
  options_ = options;
}

// ---- optimizers ---------------------------------------------------------------------------------

/** What the scaler knows of one optimizer. */
struct GradScaler::PerOptimizer final : optim::StepObserver {
  // Since the last update(): unscale_() or step() was called; a gradient was used in one of them.
  bool unscaled = false, stepped = false, had_gradients = false;
  optim::FoundInf found = {};                     // raised since then for a non-finite gradient
  std::size_t number = 0;                         // identifies the optimizer in a NonfiniteLocation
  LossScaler* scaler = nullptr;                   // for messages
  std::shared_ptr<optim::DeviceStepState> clock;  // of the optimizer

  bool in_use() const { return unscaled || stepped; }
  void skips_found(Optimizer& optimizer, std::int64_t, std::int64_t diverged_after) override {
    if (diverged_after > 0)
      fail_diverged(optimizer, std::string(optimizer.type_name()), scaler->loss_scale(),
                    diverged_after);
  }
};

/** Returns what is known of an optimizer. Errors: StateError if it belongs to a session, before any
 *  scale(). */
std::shared_ptr<GradScaler::PerOptimizer> GradScaler::state_of(std::string_view op,
                                                               Optimizer& optimizer) {
  if (const auto link = AmpOptimizerState::of(optimizer); link && link->core()->enabled())
    fail<StateError>(op, {.what = "this optimizer belongs to a session, which scales losses itself",
                          .got = std::string(optimizer.type_name()),
                          .hint = "use amp::scale_loss, or close the session"});
  optimizer.refuse_closure(op);
  require_scaled(op);
  const auto known = optimizers_.find(&optimizer);
  std::shared_ptr<PerOptimizer> state = known == optimizers_.end() ? nullptr : known->second;
  // The entry may be that of a destroyed optimizer at the same address.
  if (!state || state->clock->owner() != &optimizer) {
    const std::size_t number = state ? state->number : optimizers_.size();
    state = std::make_shared<PerOptimizer>();
    state->number = number;
    state->scaler = &scaler_;
    state->clock = optimizer.clock().shared_from_this();
    optimizers_[&optimizer] = state;
  }
  return state;
}

std::string GradScaler::text_of(const optim::NonfiniteLocation& noted) const {
  for (const auto& [key, state] : optimizers_)
    if (state->number == optimizer_of(noted) && state->clock->owner())
      return nonfinite_gradient_text(*state->clock->owner(), noted);
  return {};
}

bool GradScaler::any_in_use() const {
  return std::any_of(optimizers_.begin(), optimizers_.end(),
                     [](const auto& entry) { return entry.second->in_use(); });
}

void GradScaler::end_iteration(bool drops_overflows) {
  for (const auto& [key, state] : optimizers_) {
    if (drops_overflows && state->in_use()) state->found.reset();
    state->unscaled = state->stepped = state->had_gradients = false;
  }
  scaled_since_update_ = false;
}

// ---- construction -------------------------------------------------------------------------------

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_(options),
      scaler_(rule_of(options),
              ScaleState{.scale = to_f32(options.init_scale), .tolerance = options.hysteresis}) {
  scaler_.set_owner([this](const optim::NonfiniteLocation& noted) { return text_of(noted); },
                    [this] { end_iteration(false); });
}

GradScaler::GradScaler(const GradScaler& other) : GradScaler(other.options_) { *this = other; }

GradScaler& GradScaler::operator=(const GradScaler& other) {
  other.require_between_updates();
  end_iteration(true);
  scaler_ = other.scaler_;
  options_ = other.options_;
  used_ = other.used_;
  return *this;
}

GradScaler::~GradScaler() = default;

void GradScaler::require_between_updates() const {
  if (any_in_use())
    fail<StateError>("GradScaler", {.what = "cannot be copied in the middle of an iteration",
                                    .hint = "call update() first"});
}

// ---- the iteration ------------------------------------------------------------------------------

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
  return scaler_.times(x);
}

namespace {

bool has_gradients(const Optimizer& optimizer) {
  const std::vector<Tensor> params = optimizer.params();
  return std::any_of(params.begin(), params.end(),
                     [](const Tensor& p) { return p.grad().defined(); });
}

}  // namespace

/** Raises the optimizer's flag for a non-finite gradient, and unscales the gradients if
 *  `unscales`. */
void GradScaler::examine(Optimizer& optimizer, PerOptimizer& state, bool unscales) {
  const NoGradNoCasts plain_ops;
  const std::vector<optim::AxpbyTensors> work = gradients_of(
      optimizer, state.number, unscales ? "GradScaler.unscale_" : "GradScaler.step", unscales);
  Receivers receivers;
  add_receivers(optimizer, receivers);
  state.had_gradients = !work.empty();
  if (work.empty() && receivers.empty()) return;
  const Device device = work.empty() ? optimizer.params()[0].device() : work[0].x.device();
  state.found = moved_to(device, state.found);
  if (unscales)
    optim::axpby(work, scaler_.on(device).inverse(device), 1, optim::CheckFinite::x, state.found);
  else
    optim::check_finite(work, state.found);
  // The update of the scale depends on whether there were gradients.
  state.had_gradients = agree(receivers, scaler_, state.found, state.had_gradients);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  constexpr std::string_view op = "GradScaler.unscale_";
  const TraceRange range(op);
  if (!options_.enabled) return;
  const std::shared_ptr<PerOptimizer> state = state_of(op, optimizer);
  if (state->in_use())
    fail<StateError>(op,
                     {.what = state->stepped ? "unscale_ was called after step"
                                             : "unscale_ was called already since the last update",
                      .hint = "call update() first"});
  examine(optimizer, *state, true);
  state->unscaled = true;
}

StepResult GradScaler::step(Optimizer& optimizer, const optim::StepOptions& options) {
  constexpr std::string_view op = "GradScaler.step";
  const TraceRange range(op);
  if (!options_.enabled) return optimizer.step(options);
  const std::shared_ptr<PerOptimizer> state = state_of(op, optimizer);
  if (state->stepped)
    fail<StateError>(op, {.what = "step was called already since the last update",
                          .hint = "call update() first"});
  const bool fused = !state->unscaled && optimizer.unscales_itself();
  if (!state->unscaled) examine(optimizer, *state, !fused);
  state->unscaled = !fused;  // if the step throws, the next must not unscale again
  optim::StepCondition condition{
      .found = state->found, .skip_limit = options_.max_consecutive_skips, .observer = state};
  StepResult result = StepResult::no_grads;
  try {
    if (fused && state->had_gradients) {
      const Device device = state->found.flag.device();
      condition.unscale = scaler_.on(device).inverse(device);
      condition.writes_back = true;
    }
    if (has_gradients(optimizer) || state->found.raised())
      result = optimizer.step(options, condition);
  } catch (const DivergenceError&) {
    state->stepped = true;
    throw;
  } catch (...) {
    if (fused) state->found.reset();
    throw;
  }
  state->stepped = true;
  state->had_gradients =
      state->had_gradients || !result.is_known() || result == StepResult::stepped;
  return result;
}

// ---- the scale ----------------------------------------------------------------------------------

void GradScaler::update() {
  constexpr std::string_view op = "GradScaler.update";
  const TraceRange range(op);
  if (!options_.enabled) return;
  require_scaled(op);
  std::vector<PerOptimizer*> used;
  for (const auto& [key, state] : optimizers_)
    if (state->in_use()) used.push_back(state.get());
  if (used.empty())
    fail<StateError>(op, {.what = "neither unscale_ nor step was called since the last update"});
  scaler_.make_room();
  const Tensor& flag = used[0]->found.flag;
  const Device device = flag.defined() ? flag.device() : scaler_.device();
  const ScaleCall blank = scaler_.call(device);
  for (PerOptimizer* state : used) {
    ScaleCall call = blank;
    call.any = state->had_gradients;
    call.completes = state == used.back();
    add_step(call, device, *state->clock);
    if (!state->found.flag.defined() || state->found.flag.device() == device) {
      call.noted = call.reset = pointers_of(state->found);
    } else {
      call.found = state->found.raised();
      state->found.reset();
    }
    scaler_.run(call);
  }
  end_iteration(false);
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  require_scaled("GradScaler.update");
  require_scale("new_scale", new_scale);
  ScaleState changed = scaler_.state();
  changed.scale = to_f32(new_scale);
  ++changed.checks;
  scaler_.change(changed, ScaleReason::set);
  end_iteration(true);
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
  const auto entry = optimizers_.find(&optimizer);
  return entry != optimizers_.end() && entry->second->in_use() && entry->second->found.raised();
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
  ScaleState state = scaler_.state();
  state.scale = to_f32(saved.at("scale"));
  state.unskipped = count("_growth_tracker", 0, 0x1p30);
  if (options_.hysteresis > 1)
    state.tolerance = count("hysteresis_tracker", 0, options_.hysteresis);
  return {changed, state};
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
    ScaleState changed = scaler_.state();
    changed.scale = state.scale;
    changed.unskipped = state.unskipped;
    changed.tolerance = state.tolerance;
    scaler_.change(changed, ScaleReason::restored);
    end_iteration(true);
  };
}

void GradScaler::load_state_dict(const std::map<std::string, double>& saved) {
  stage_state_dict(saved)();
}

}  // namespace mezzo::amp
