#include "grad_scaler.h"

#include <cmath>
#include <limits>
#include <unordered_set>

#include "../autograd/grad_mode.h"
#include "../autograd/ops/create.h"
#include "../autograd/ops/operators.h"
#include "../tensor/text.h"
#include "divergence.h"
#include "nonfinite_gradient.h"
#include "optimizer_link.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::StepResult;

namespace {

void require(bool holds, std::string_view what, double got, std::string_view expected) {
  if (!holds)
    fail<ValueError>(
        "GradScaler",
        {.what = str(what, " is out of range"), .got = str(got), .expected = std::string(expected)});
}

void require_scale(std::string_view what, double scale) {
  require(std::isfinite(scale) && scale > 0 && std::isfinite(static_cast<float>(scale)) &&
              static_cast<float>(scale) > 0,
          what, scale, "a finite number > 0");
}

void check(const GradScalerOptions& o) {
  require_scale("init_scale", o.init_scale);
  require(std::isfinite(o.growth_factor) && o.growth_factor > 1, "growth_factor", o.growth_factor,
          "a number > 1");
  require(o.backoff_factor > 0 && o.backoff_factor < 1, "backoff_factor", o.backoff_factor,
          "a number in (0, 1)");
  require(o.growth_interval >= 1, "growth_interval", o.growth_interval, "at least 1");
  require(o.hysteresis >= 1, "hysteresis", o.hysteresis, "at least 1");
  require(o.max_consecutive_skips >= 0, "max_consecutive_skips", o.max_consecutive_skips,
          "0 (never) or a count");
  if (o.min_scale) require_scale("min_scale", *o.min_scale);
  if (o.max_scale) require_scale("max_scale", *o.max_scale);
  if (o.min_scale && o.max_scale)
    require(*o.min_scale <= *o.max_scale, "min_scale", *o.min_scale, "at most max_scale");
}

ScaleState initial_state(const GradScalerOptions& o) {
  return {.scale = static_cast<double>(static_cast<float>(o.init_scale)), .tolerance = o.hysteresis};
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_((check(options), options)), kept_(initial_state(options)), seen_scale_(kept_.state().scale) {}

GradScaler::GradScaler(const GradScaler& other)
    : options_((other.require_between_updates(), other.options_)),
      kept_(other.kept_),
      used_(other.used_),
      history_(other.history_) {}

GradScaler& GradScaler::operator=(const GradScaler& other) {
  other.require_between_updates();
  options_ = other.options_;
  kept_ = other.kept_;
  used_ = other.used_;
  history_ = other.history_;
  end_iteration();
  return *this;
}

GradScaler::~GradScaler() { leave_captures(); }

ScaleRule GradScaler::rule() const {
  return {.growth = options_.growth_factor,
          .backoff = options_.backoff_factor,
          .least = options_.min_scale.value_or(optim::kScaleFloor),
          .most = options_.max_scale.value_or(std::numeric_limits<double>::infinity()),
          .window = options_.growth_interval,
          .tolerance = options_.hysteresis,
          .is_f32 = true,
          .stops_at_most = false};
}

void GradScaler::require_between_updates() const {
  if (!optimizers_.empty())
    fail<StateError>("GradScaler",
                     {.what = "copied in the middle of an iteration", .hint = "call update() first"});
}

void GradScaler::require_scaled(std::string_view op) const {
  if (!used_)
    fail<StateError>(
        op, {.what = "no loss has been scaled yet", .hint = "call scaler.scale(loss).backward() first"});
}

void GradScaler::require_unattached(std::string_view op, const Optimizer& optimizer) const {
  const auto* link = dynamic_cast<const OptimizerLink*>(optimizer.attachment());
  if (link && link->core()->enabled())
    fail<StateError>(op, {.what = "this optimizer belongs to a session, which scales losses itself",
                          .got = std::string(optimizer.type_name()),
                          .hint = "use amp::scale_loss, or close the session"});
}

Tensor GradScaler::scale(const Tensor& x) {
  if (!options_.enabled) return x;
  if (!x.defined() || !is_floating(x.dtype()))
    fail<DtypeError>("GradScaler.scale", {.what = "only a floating tensor can be scaled", .got = str(x)});
  join_capture();
  used_ = scaled_since_update_ = true;
  const Tensor wide = is_low(x.dtype()) ? x.to(f32) : x;
  if (defers()) return wide * kept_.on(x.device()).scale(wide.dtype());
  return wide * scale_number();
}

// ---- per optimizer --------------------------------------------------------------------------------------------------------

namespace {

/** What unscaling works on: each gradient in its own memory. Errors: DtypeError for an f16 one. */
std::vector<optim::AxpbyTensors> unscale_work(const Optimizer& optimizer) {
  std::vector<optim::AxpbyTensors> work;
  std::size_t position = 0;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const optim::Slot& slot : optimizer.slots(group)) {
      const Tensor grad = slot.param.grad();
      if (grad.defined() && grad.dtype() == f16)
        fail<DtypeError>("GradScaler.unscale_",
                         {.what = str("parameter ", position, " has an f16 gradient"),
                          .got = str(grad),
                          .expected = "bf16, f32 or f64",
                          .hint = "keep the parameters in f32 and run the forward pass under autocast"});
      if (grad.defined()) {
        const Tensor dense = grad.is_contiguous() ? grad.detach() : grad.detach().contiguous();
        work.push_back({dense, {}, dense});
        if (!grad.is_contiguous()) slot.param.set_grad(dense);
      }
      ++position;
    }
  return work;
}

std::vector<Tensor> gradients_of(const Optimizer& optimizer) {
  std::vector<Tensor> grads;
  for (const Tensor& p : optimizer.params())
    if (const Tensor grad = p.grad(); grad.defined()) grads.push_back(grad);
  return grads;
}

}  // namespace

namespace {

Tensor new_flag(Device device) { return zeros({}, {.dtype = f32, .device = device}); }

}  // namespace

void GradScaler::unscale(Optimizer& optimizer, PerOptimizer& state) {
  const NoGrad no_grad;
  const CastScope no_casts(nullptr);
  const std::vector<optim::AxpbyTensors> work = unscale_work(optimizer);
  state.had_gradients = !work.empty();
  if (work.empty()) return;
  const Device device = work[0].x.device();
  if (defers()) {
    state.flag = flag_for(optimizer, device);
    const double* scale = kept_.on(device).scale(f64).data<double>();
    return optim::axpby(work, optim::Factor::over(1, scale), 1, optim::CheckFinite::x, state.flag);
  }
  const Tensor flag = new_flag(device);
  optim::axpby(work, 1 / scale_number(), 1, optim::CheckFinite::x, flag);
  note(flag, optimizer, state);
}

void GradScaler::note(const Tensor& flag, const Optimizer& optimizer, PerOptimizer& state) {
  state.found_inf = flag.item<float>() != 0;
  if (state.found_inf && culprit_.empty()) culprit_ = nonfinite_gradient_text(optimizer);
}

void GradScaler::look_through(const Optimizer& optimizer, PerOptimizer& state) {
  const std::vector<Tensor> grads = gradients_of(optimizer);
  state.had_gradients = !grads.empty();
  if (grads.empty()) return;
  const Device device = grads[0].device();
  if (defers()) {
    state.flag = flag_for(optimizer, device);
    return optim::check_finite(grads, state.flag);
  }
  const Tensor flag = new_flag(device);
  optim::check_finite(grads, flag);
  note(flag, optimizer, state);
}

GradScaler::PerOptimizer GradScaler::state_of(std::string_view op, const Optimizer& optimizer) const {
  require_unattached(op, optimizer);
  require_scaled(op);
  const auto found = optimizers_.find(&optimizer);
  return found == optimizers_.end() ? PerOptimizer{} : found->second;
}

void GradScaler::unscale_(Optimizer& optimizer) {
  constexpr std::string_view op = "GradScaler.unscale_";
  if (!options_.enabled) return;
  PerOptimizer state = state_of(op, optimizer);
  if (state.stage == Stage::unscaled)
    fail<StateError>(op, {.what = "unscale_ was called already since the last update"});
  if (state.stage == Stage::stepped)
    fail<StateError>(op, {.what = "unscale_ comes after step", .hint = "call update() first"});
  unscale(optimizer, state);
  state.stage = Stage::unscaled;
  optimizers_[&optimizer] = state;
}

namespace {

[[noreturn]] void refuse_second_step(std::string_view op) {
  fail<StateError>(op,
                   {.what = "step was called already since the last update", .hint = "call update() first"});
}

}  // namespace

StepResult GradScaler::step(Optimizer& optimizer, const optim::StepOptions& options) {
  constexpr std::string_view op = "GradScaler.step";
  if (!options_.enabled) return optimizer.step(options);
  PerOptimizer state = state_of(op, optimizer);
  if (state.stage == Stage::stepped) refuse_second_step(op);
  if (Capture::current())
    fail<StateError>(op, {.what = "its answer is known to nobody while a step is being captured",
                          .hint = "call step_deferred(), and last_verdict() after a replay"});
  defers_ = false;
  read_flag(optimizer, state);
  optim::StepOptions fused = options;
  if (state.stage == Stage::ready && optimizer.unscales_itself()) {
    look_through(optimizer, state);
    fused.inv_scale = options.inv_scale / scale_number();
  } else if (state.stage == Stage::ready) {
    unscale(optimizer, state);
    state.stage = Stage::unscaled;
    optimizers_[&optimizer] =
        state;  // so that a step that throws is not unscaled again when it is tried again
  }
  StepResult result = StepResult::no_grads;
  if (state.found_inf)
    result = StepResult::skipped;
  else if (!gradients_of(optimizer).empty())
    result = optimizer.step(fused);
  state.stage = Stage::stepped;
  state.had_gradients = state.had_gradients || result == StepResult::stepped;
  optimizers_[&optimizer] = state;
  if (result == StepResult::skipped) {
    optimizer.note_skip();
    const int limit = options_.max_consecutive_skips;
    if (limit > 0 && optimizer.consecutive_skips() >= limit)
      fail_diverged(optimizer, std::string(optimizer.type_name()), scale_number());
  }
  return result;
}

// ---- steps that nobody waits for ------------------------------------------------------------------------------------------

/** Looks after the optimizers that captured steps update. */
class GradScaler::Guest final : public CaptureGuest {
 public:
  explicit Guest(GradScaler& scaler) : scaler_(&scaler) {}
  void leave() { scaler_ = nullptr; }

  void before_replay() override {}
  void after_replay() override {
    if (!scaler_) return;
    for (Optimizer* optimizer : optimizers) scaler_->watch(*optimizer);
  }
  void abandon_capture() noexcept override {
    if (scaler_) scaler_->end_iteration();
  }

  std::unordered_set<Optimizer*> optimizers;

 private:
  GradScaler* scaler_;
};

void GradScaler::leave_captures() {
  if (guest_) guest_->leave();
}

void GradScaler::join_capture() {
  Capture* capture = Capture::current();
  if (!capture) return;
  if (!guest_) guest_ = std::make_shared<Guest>(*this);
  capture->join(guest_);
}

Tensor GradScaler::flag_for(const Optimizer& optimizer, Device device) {
  Tensor& flag = flags_[&optimizer];
  if (!flag.defined() || flag.device() != device) flag = lowered_flag(device);
  return flag;
}

/** What the device knows alone becomes the host's. */
void GradScaler::read_flag(const Optimizer& optimizer, PerOptimizer& state) {
  if (!state.flag.defined()) return;
  const Tensor flag = std::exchange(state.flag, {});
  note(flag, optimizer, state);
  flag.zero_();
}

void GradScaler::step_deferred(Optimizer& optimizer, const optim::StepOptions& options) {
  constexpr std::string_view op = "GradScaler.step_deferred";
  const bool can_defer = optimizer.can_defer();
  Capture::require_prepared(op, can_defer, "the optimizer takes its first step");
  if (!options_.enabled) {
    if (!can_defer) return void(optimizer.step(options));
    optimizer.step_deferred(options, {});
    return optimizer.clock().flush();
  }
  PerOptimizer state = state_of(op, optimizer);
  if (state.stage == Stage::stepped) refuse_second_step(op);
  if (!can_defer) {
    (void)step(optimizer, options);
    defers_ = !gradients_of(optimizer).empty();
    return;
  }
  defers_ = true;
  const Device device = gradients_of(optimizer)[0].device();
  optim::Deferral deferral{.skip_limit = options_.max_consecutive_skips};
  if (state.stage == Stage::ready && optimizer.unscales_itself()) {
    look_through(optimizer, state);
    deferral.scale = kept_.on(device).scale(f64).data<double>();
  } else if (state.stage == Stage::ready) {
    unscale(optimizer, state);
    state.stage = Stage::unscaled;
    optimizers_[&optimizer] = state;
  }
  join_capture();
  deferral.found_inf = state.flag.defined() ? state.flag : flag_for(optimizer, device);
  if (!state.flag.defined()) deferral.found_inf.fill_(state.found_inf ? 1 : 0);  // unscale_ has told the host
  state.flag = deferral.found_inf;
  optimizer.step_deferred(options, deferral);
  state.stage = Stage::stepped;
  state.had_gradients = true;
  state.clock = optimizer.clock().shared_from_this();
  optimizers_[&optimizer] = state;
  if (Capture::current())
    guest_->optimizers.insert(&optimizer);
  else
    watch(optimizer);
}

void GradScaler::watch(Optimizer& optimizer) {
  watches_[&optimizer].tick(optimizer, std::string(optimizer.type_name()), [this] { return scale_number(); });
}

StepResult GradScaler::last_verdict(Optimizer& optimizer) {
  if (options_.enabled)
    watches_[&optimizer].look(optimizer, std::string(optimizer.type_name()),
                              [this] { return scale_number(); });
  return optimizer.last_result();
}

/** One launch for each optimizer; the last one moves the scale. */
void GradScaler::update_on_device() {
  std::optional<Device> device;
  for (const auto& [optimizer, state] : optimizers_)
    if (state.flag.defined()) device = state.flag.device();
  for (const auto& [optimizer, flag] : flags_)
    if (!device) device = flag.device();
  const DeviceScale& scale = kept_.on(device.value_or(cpu));
  std::size_t left = optimizers_.size();
  for (auto& [optimizer, state] : optimizers_) {
    ScaleCall call = scale.call(rule());
    if (state.clock)
      if (const auto owed = state.clock->take_owed()) call.clock = *owed;
    if (state.flag.defined()) call.noted = call.lowered = state.flag.data<float>();
    call.found = state.found_inf;
    call.any = state.had_gradients;
    call.moves = --left == 0;
    kept_.run(call);
  }
}

/** The host looks at the scale: what it has not seen becomes one event. */
void GradScaler::note_seen() const {
  if (!kept_.is_ahead()) return void(seen_scale_ = scale_number());
  const double former = seen_scale_, now = scale_number();
  const bool overflowed = kept_.device_overflows() != seen_overflows_;
  seen_overflows_ = kept_.device_overflows();
  seen_scale_ = now;
  if (overflowed)
    history_.note(former, now, ScaleReason::overflow);
  else if (now != former)
    history_.note(former, now, ScaleReason::growth);
}

double GradScaler::get_scale() const {
  if (!options_.enabled) return 1;
  if (Capture::current())
    fail<StateError>("GradScaler.get_scale", {.what = "the scale is read while a step is being captured",
                                              .hint = "read it after a replay"});
  note_seen();
  return scale_number();
}

std::vector<ScaleEvent> GradScaler::events() const {
  note_seen();
  return history_.events();
}

bool GradScaler::found_inf(const Optimizer& optimizer) const {
  const auto found = optimizers_.find(&optimizer);
  if (found == optimizers_.end()) return false;
  const PerOptimizer& state = found->second;
  return state.found_inf || (state.flag.defined() && state.flag.item<float>() != 0);
}

// ---- the scale --------------------------------------------------------------------------------------------------------------

void GradScaler::update() {
  constexpr std::string_view op = "GradScaler.update";
  if (!options_.enabled) return;
  require_scaled(op);
  if (optimizers_.empty())
    fail<StateError>(op, {.what = "neither unscale_ nor step was called since the last update"});
  history_.tick();
  if (defers()) {
    if (!kept_.is_ahead()) note_seen();
    update_on_device();
    return end_iteration();
  }
  note_seen();
  bool any = false, found = false;
  for (const auto& [optimizer, state] : optimizers_) {
    any = any || state.had_gradients;
    found = found || state.found_inf;
  }
  ScaleState& state = kept_.change();
  const double former = state.scale;
  if (found || any) state.move(rule(), found);
  if (found)
    history_.note(former, state.scale, ScaleReason::overflow, culprit_);
  else if (state.scale != former)
    history_.note(former, state.scale, ScaleReason::growth);
  end_iteration();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  require_scaled("GradScaler.update");
  require_scale("new_scale", new_scale);
  history_.tick();
  note_seen();
  for (auto& [optimizer, state] : optimizers_) read_flag(*optimizer, state);
  ScaleState& state = kept_.change();
  history_.note(state.scale, new_scale, ScaleReason::set);
  state.scale = static_cast<double>(static_cast<float>(new_scale));
  seen_scale_ = state.scale;
  end_iteration();
}

void GradScaler::end_iteration() {
  optimizers_.clear();
  culprit_.clear();
  scaled_since_update_ = false;
}

void GradScaler::set_growth_factor(double factor) {
  GradScalerOptions changed = options_;
  changed.growth_factor = factor;
  check(changed);
  options_ = changed;
}

void GradScaler::set_backoff_factor(double factor) {
  GradScalerOptions changed = options_;
  changed.backoff_factor = factor;
  check(changed);
  options_ = changed;
}

void GradScaler::set_growth_interval(int interval) {
  GradScalerOptions changed = options_;
  changed.growth_interval = interval;
  check(changed);
  options_ = changed;
}

// ---- checkpoints --------------------------------------------------------------------------------------------------------------

std::map<std::string, double> GradScaler::state_dict() const {
  if (!options_.enabled) return {};
  note_seen();
  const ScaleState& state = kept_.state();
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
      fail<ValueError>(
          op,
          {.what = "an entry is missing", .expected = name, .hint = "was it saved by a disabled scaler?"});
  const auto count = [&](const std::string& name, double least, double most) {
    const double value = saved.at(name);
    require(value >= least && value <= most && value == std::floor(value), name, value, "a count");
    return static_cast<int>(value);
  };
  GradScalerOptions changed = options_;
  changed.growth_factor = saved.at("growth_factor");
  changed.backoff_factor = saved.at("backoff_factor");
  changed.growth_interval = count("growth_interval", 1, 0x1p30);
  check(changed);
  require_scale("scale", saved.at("scale"));
  const int tracker = count("_growth_tracker", 0, 0x1p30);
  const std::int64_t tolerance =
      options_.hysteresis > 1 ? count("hysteresis_tracker", 0, options_.hysteresis) : kept_.state().tolerance;
  return {changed, {static_cast<double>(static_cast<float>(saved.at("scale"))), tracker, tolerance}};
}

void GradScaler::check_state_dict(const std::map<std::string, double>& saved) const {
  if (options_.enabled) (void)checked(saved);
}

void GradScaler::load_state_dict(const std::map<std::string, double>& saved) {
  if (!options_.enabled) return;
  const Saved values = checked(saved);
  history_.note(scale_number(), values.state.scale, ScaleReason::restored);
  options_ = values.options;
  for (auto& [optimizer, state] : optimizers_) read_flag(*optimizer, state);
  kept_.change() = values.state;
  seen_scale_ = values.state.scale;
  end_iteration();
}

}  // namespace mezzo::amp
