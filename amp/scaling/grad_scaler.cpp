#include "grad_scaler.h"

#include <cmath>
#include <limits>
#include <unordered_set>

#include "../../autograd/grad_mode.h"
#include "../../autograd/ops/create.h"
#include "../../autograd/ops/operators.h"
#include "../../tensor/text/text.h"
#include "amp_optimizer_state.h"
#include "divergence.h"
#include "grad_scaler_parts.h"
#include "nonfinite_gradient.h"

namespace mezzo::amp {

using optim::Optimizer;
using optim::StepResult;

void require_in_range(bool holds, std::string_view what, double got, std::string_view expected) {
  if (!holds)
    fail<ValueError>("GradScaler", {.what = str(what, " is out of range"),
                                    .got = str(got),
                                    .expected = std::string(expected)});
}

void require_scale(std::string_view what, double scale) {
  require_in_range(std::isfinite(scale) && scale > 0 && std::isfinite(static_cast<float>(scale)) &&
                       static_cast<float>(scale) > 0,
                   what, scale, "a finite number > 0");
}

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

namespace {

ScaleState initial_state(const GradScalerOptions& o) {
  return {.scale = static_cast<double>(static_cast<float>(o.init_scale)),
          .tolerance = o.hysteresis};
}

}  // namespace

GradScaler::GradScaler(const GradScalerOptions& options)
    : options_((check(options), options)), store_(initial_state(options)) {}

GradScaler::GradScaler(const GradScaler& other)
    : options_((other.require_between_updates(), other.options_)),
      store_(other.store_),
      used_(other.used_),
      history_(other.history_) {}

GradScaler& GradScaler::operator=(const GradScaler& other) {
  other.require_between_updates();
  options_ = other.options_;
  store_ = other.store_;
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
    fail<StateError>("GradScaler", {.what = "cannot be copied in the middle of an iteration",
                                    .hint = "call update() first"});
}

void GradScaler::require_scaled(std::string_view op) const {
  if (!used_)
    fail<StateError>(op, {.what = "no loss has been scaled yet",
                          .hint = "call scaler.scale(loss).backward() first"});
}

void GradScaler::require_unattached(std::string_view op, const Optimizer& optimizer) const {
  const auto* link = dynamic_cast<const AmpOptimizerState*>(optimizer.hooks());
  if (link && link->core()->enabled())
    fail<StateError>(op, {.what = "this optimizer belongs to a session, which scales losses itself",
                          .got = std::string(optimizer.type_name()),
                          .hint = "use amp::scale_loss, or close the session"});
}

Tensor GradScaler::scale(const Tensor& x) {
  if (!options_.enabled) return x;
  if (!x.defined() || !is_floating(x.dtype()))
    fail<DtypeError>("GradScaler.scale",
                     {.what = "expected a floating-point tensor", .got = str(x)});
  join_capture();
  used_ = scaled_since_update_ = true;
  const Tensor wide = is_low(x.dtype()) ? x.to(f32) : x;
  if (defers()) return wide * store_.on(x.device()).scale(wide.dtype());
  return wide * scale_number();
}

// ---- per optimizer ------------------------------------------------------------------------------

namespace {

/** Returns the gradients to unscale in place; one with gaps or repeated elements is first replaced
 *  by a dense copy. Errors: DtypeError for an f16 gradient. */
std::vector<optim::AxpbyTensors> unscale_work(const Optimizer& optimizer) {
  std::vector<optim::AxpbyTensors> work;
  std::uint32_t position = 0;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const optim::Slot& slot : optimizer.slots(group)) {
      const Tensor grad = slot.param.grad();
      if (grad.defined() && grad.dtype() == f16)
        fail<DtypeError>(
            "GradScaler.unscale_",
            {.what = str("parameter ", position, " has an f16 gradient"),
             .got = str(grad),
             .expected = "bf16, f32 or f64",
             .hint = "keep the parameters in f32 and run the forward pass under autocast"});
      if (grad.defined()) {
        const bool is_dense = same_dense_layout(grad, grad);
        const Tensor dense = is_dense ? grad.detach() : grad.detach().contiguous();
        work.push_back({dense, {}, dense, position});
        if (!is_dense) slot.param.set_grad(dense);
      }
      ++position;
    }
  return work;
}

}  // namespace

std::vector<Tensor> gradients_of(const Optimizer& optimizer) {
  std::vector<Tensor> grads;
  for (const Tensor& p : optimizer.params())
    if (const Tensor grad = p.grad(); grad.defined()) grads.push_back(grad);
  return grads;
}

namespace {

Tensor new_flag(Device device) { return zeros({}, {.dtype = f32, .device = device}); }

}  // namespace

/** Replaces the parameter positions in `work` by gradient numbers, and returns the flag. */
FoundInf GradScaler::numbered(std::vector<optim::AxpbyTensors>& work, const Flagged& flagged) {
  for (optim::AxpbyTensors& item : work) item.number = gradient_number(flagged.number, item.number);
  return flagged.flag;
}

void GradScaler::unscale(Optimizer& optimizer, PerOptimizer& state) {
  const NoGradNoCasts plain_ops;
  std::vector<optim::AxpbyTensors> work = unscale_work(optimizer);
  state.had_gradients = !work.empty();
  if (work.empty()) return;
  const Device device = work[0].x.device();
  if (defers()) {
    state.flag = numbered(work, flag_for(optimizer, device));
    const double* scale = store_.on(device).scale(f64).data<double>();
    return optim::axpby(work, optim::Factor::over(1, scale), 1, optim::CheckFinite::x, state.flag);
  }
  const Tensor flag = new_flag(device);
  optim::axpby(work, 1 / scale_number(), 1, optim::CheckFinite::x, {flag, {}});
  note(flag, optimizer, state);
}

/** Reads the flag. Does not fail, because the gradients have already changed. */
void GradScaler::note(const Tensor& flag, const Optimizer& optimizer, PerOptimizer& state) {
  state.found_inf = is_raised({flag, {}});
  if (state.found_inf && first_nonfinite_.empty())
    first_nonfinite_ = nonfinite_gradient_text(optimizer);
}

void GradScaler::check_gradients(const Optimizer& optimizer, PerOptimizer& state) {
  std::vector<optim::AxpbyTensors> work;
  std::uint32_t position = 0;
  for (const Tensor& p : optimizer.params()) {
    if (const Tensor grad = p.grad(); grad.defined()) work.push_back({grad, {}, {}, position});
    ++position;
  }
  state.had_gradients = !work.empty();
  if (work.empty()) return;
  const Device device = work[0].x.device();
  if (defers()) {
    state.flag = numbered(work, flag_for(optimizer, device));
    return optim::check_finite(work, state.flag);
  }
  const Tensor flag = new_flag(device);
  optim::check_finite(work, {flag, {}});
  note(flag, optimizer, state);
}

GradScaler::PerOptimizer GradScaler::state_of(std::string_view op,
                                              const Optimizer& optimizer) const {
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
    fail<StateError>(op, {.what = "unscale_ was called after step", .hint = "call update() first"});
  Entry entry(*this, optimizer);
  unscale(optimizer, state);
  state.stage = Stage::unscaled;
  entry.set(state);
}

void refuse_second_step(std::string_view op) {
  fail<StateError>(
      op, {.what = "step was called already since the last update", .hint = "call update() first"});
}

StepResult GradScaler::step(Optimizer& optimizer, const optim::StepOptions& options) {
  constexpr std::string_view op = "GradScaler.step";
  if (!options_.enabled) return optimizer.step(options);
  PerOptimizer state = state_of(op, optimizer);
  if (state.stage == Stage::stepped) refuse_second_step(op);
  if (Capture::current())
    fail<StateError>(op, {.what = "the overflow flag is unknown while a step is being captured",
                          .hint = "call step_deferred(), and last_verdict() after a replay"});
  Entry entry(*this, optimizer);
  defers_ = false;
  read_flag(optimizer, state);
  optim::StepOptions fused = options;
  if (state.stage == Stage::ready && optimizer.unscales_itself()) {
    check_gradients(optimizer, state);
    fused.inv_scale = options.inv_scale / scale_number();
  } else if (state.stage == Stage::ready) {
    unscale(optimizer, state);
    state.stage = Stage::unscaled;
    entry.set(state);  // if the step throws, the next call must not unscale again
  }
  StepResult result = StepResult::no_grads;
  if (state.found_inf)
    result = StepResult::skipped;
  else if (!gradients_of(optimizer).empty())
    result = optimizer.step(fused);
  state.stage = Stage::stepped;
  state.had_gradients = state.had_gradients || result == StepResult::stepped;
  entry.set(state);
  if (result == StepResult::skipped) {
    optimizer.note_skip();
    const int limit = options_.max_consecutive_skips;
    if (limit > 0 && optimizer.consecutive_skips() >= limit)
      fail_diverged(optimizer, std::string(optimizer.type_name()), scale_number());
  }
  return result;
}

// ---- the scale ----------------------------------------------------------------------------------

void GradScaler::update() {
  constexpr std::string_view op = "GradScaler.update";
  if (!options_.enabled) return;
  require_scaled(op);
  if (optimizers_.empty())
    fail<StateError>(op, {.what = "neither unscale_ nor step was called since the last update"});
  history_.make_room();
  if (!Capture::current()) history_.tick();
  if (defers()) {
    if (!store_.is_ahead()) record_changes();
    if (!first_nonfinite_.empty()) host_first_nonfinite_ = first_nonfinite_;
    update_on_device();
    return end_iteration();
  }
  record_changes();
  bool any = false, found = false;
  for (const auto& [optimizer, state] : optimizers_) {
    any = any || state.had_gradients;
    found = found || state.found_inf;
  }
  ScaleState& state = store_.change();
  const double former = state.scale;
  if (found || any) state.move(rule(), found);
  if (found)
    history_.note(former, state.scale, ScaleReason::overflow, std::move(first_nonfinite_));
  else if (state.scale != former)
    history_.note(former, state.scale, ScaleReason::growth);
  end_iteration();
}

void GradScaler::update(double new_scale) {
  if (!options_.enabled) return;
  require_scaled("GradScaler.update");
  require_scale("new_scale", new_scale);
  history_.make_room();
  history_.tick();
  record_changes();
  for (auto& [optimizer, state] : optimizers_) read_flag(*optimizer, state);
  ScaleState& state = store_.change();
  history_.note(state.scale, new_scale, ScaleReason::set);
  state.scale = static_cast<double>(static_cast<float>(new_scale));
  end_iteration();
}

void GradScaler::end_iteration() {
  optimizers_.clear();
  first_nonfinite_.clear();
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

}  // namespace mezzo::amp
