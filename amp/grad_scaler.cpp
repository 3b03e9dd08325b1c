#include "grad_scaler.h"

#include <algorithm>
#include <cmath>

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

constexpr double kFloor = 0x1p-126;  // the smallest normal f32: 1 / scale stays finite

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

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_((check(options), options)),
      scale_(static_cast<float>(options.init_scale)),
      hysteresis_tracker_(options.hysteresis) {}

GradScaler::GradScaler(const GradScaler& other)
    : options_((other.require_between_updates(), other.options_)),
      scale_(other.scale_),
      growth_tracker_(other.growth_tracker_),
      hysteresis_tracker_(other.hysteresis_tracker_),
      used_(other.used_),
      history_(other.history_) {}

GradScaler& GradScaler::operator=(const GradScaler& other) {
  other.require_between_updates();
  options_ = other.options_;
  scale_ = other.scale_;
  growth_tracker_ = other.growth_tracker_;
  hysteresis_tracker_ = other.hysteresis_tracker_;
  used_ = other.used_;
  history_ = other.history_;
  end_iteration();
  return *this;
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
  used_ = scaled_since_update_ = true;
  const Tensor wide = is_low(x.dtype()) ? x.to(f32) : x;
  return wide * static_cast<double>(scale_);
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

void GradScaler::unscale(Optimizer& optimizer, PerOptimizer& state) {
  const NoGrad no_grad;
  const CastScope no_casts(nullptr);
  const std::vector<optim::AxpbyTensors> work = unscale_work(optimizer);
  state.had_gradients = !work.empty();
  if (work.empty()) return;
  const Tensor flag = zeros({}, {.dtype = f32, .device = work[0].x.device()});
  optim::axpby(work, 1 / static_cast<double>(scale_), 1, optim::CheckFinite::x, flag);
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
  const Tensor flag = zeros({}, {.dtype = f32, .device = grads[0].device()});
  optim::check_finite(grads, flag);
  note(flag, optimizer, state);
}

void GradScaler::unscale_(Optimizer& optimizer) {
  constexpr std::string_view op = "GradScaler.unscale_";
  if (!options_.enabled) return;
  require_unattached(op, optimizer);
  require_scaled(op);
  PerOptimizer state;
  if (const auto found = optimizers_.find(&optimizer); found != optimizers_.end()) state = found->second;
  if (state.stage == Stage::unscaled)
    fail<StateError>(op, {.what = "unscale_ was called already since the last update"});
  if (state.stage == Stage::stepped)
    fail<StateError>(op, {.what = "unscale_ comes after step", .hint = "call update() first"});
  unscale(optimizer, state);
  state.stage = Stage::unscaled;
  optimizers_[&optimizer] = state;
}

StepResult GradScaler::step(Optimizer& optimizer, const optim::StepOptions& options) {
  constexpr std::string_view op = "GradScaler.step";
  if (!options_.enabled) return optimizer.step(options);
  require_unattached(op, optimizer);
  require_scaled(op);
  PerOptimizer state;
  if (const auto found = optimizers_.find(&optimizer); found != optimizers_.end()) state = found->second;
  if (state.stage == Stage::stepped)
    fail<StateError>(
        op, {.what = "step was called already since the last update", .hint = "call update() first"});
  optim::StepOptions fused = options;
  if (state.stage == Stage::ready && optimizer.unscales_itself()) {
    look_through(optimizer, state);
    fused.inv_scale = options.inv_scale / static_cast<double>(scale_);
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
    optimizer.set_consecutive_skips(optimizer.consecutive_skips() + 1);
    const int limit = options_.max_consecutive_skips;
    if (limit > 0 && optimizer.consecutive_skips() >= limit)
      fail_diverged(optimizer, std::string(optimizer.type_name()), scale_);
  }
  return result;
}

bool GradScaler::found_inf(const Optimizer& optimizer) const {
  const auto found = optimizers_.find(&optimizer);
  return found != optimizers_.end() && found->second.found_inf;
}

// ---- the scale --------------------------------------------------------------------------------------------------------------

void GradScaler::back_off() {
  growth_tracker_ = 0;
  if (hysteresis_tracker_ > 0) --hysteresis_tracker_;
  if (hysteresis_tracker_ > 0) return;
  const double lower = static_cast<double>(scale_) * options_.backoff_factor;
  scale_ = static_cast<float>(std::max({lower, options_.min_scale.value_or(kFloor), kFloor}));
}

void GradScaler::grow() {
  hysteresis_tracker_ = options_.hysteresis;
  if (++growth_tracker_ != options_.growth_interval) return;
  growth_tracker_ = 0;
  const float higher = static_cast<float>(static_cast<double>(scale_) * options_.growth_factor);
  if (std::isfinite(higher) && (!options_.max_scale || higher <= *options_.max_scale)) scale_ = higher;
}

void GradScaler::update() {
  constexpr std::string_view op = "GradScaler.update";
  if (!options_.enabled) return;
  require_scaled(op);
  if (optimizers_.empty())
    fail<StateError>(op, {.what = "neither unscale_ nor step was called since the last update"});
  bool any = false, found = false;
  for (const auto& [optimizer, state] : optimizers_) {
    any = any || state.had_gradients;
    found = found || state.found_inf;
  }
  history_.tick();
  const float former = scale_;
  if (found)
    back_off();
  else if (any)
    grow();
  if (found)
    history_.note(former, scale_, ScaleReason::overflow, culprit_);
  else if (scale_ != former)
    history_.note(former, scale_, ScaleReason::growth);
  end_iteration();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  require_scaled("GradScaler.update");
  require_scale("new_scale", new_scale);
  history_.tick();
  history_.note(scale_, new_scale, ScaleReason::set);
  scale_ = static_cast<float>(new_scale);
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
  std::map<std::string, double> out{{"scale", scale_},
                                    {"growth_factor", options_.growth_factor},
                                    {"backoff_factor", options_.backoff_factor},
                                    {"growth_interval", options_.growth_interval},
                                    {"_growth_tracker", growth_tracker_}};
  if (options_.hysteresis > 1) out["hysteresis_tracker"] = hysteresis_tracker_;
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
  const int tolerance =
      options_.hysteresis > 1 ? count("hysteresis_tracker", 0, options_.hysteresis) : hysteresis_tracker_;
  return {changed, static_cast<float>(saved.at("scale")), tracker, tolerance};
}

void GradScaler::check_state_dict(const std::map<std::string, double>& saved) const {
  if (options_.enabled) (void)checked(saved);
}

void GradScaler::load_state_dict(const std::map<std::string, double>& saved) {
  if (!options_.enabled) return;
  const Saved values = checked(saved);
  history_.note(scale_, static_cast<double>(values.scale), ScaleReason::restored);
  options_ = values.options;
  scale_ = values.scale;
  growth_tracker_ = values.growth_tracker;
  hysteresis_tracker_ = values.hysteresis_tracker;
  end_iteration();
}

}  // namespace mezzo::amp
