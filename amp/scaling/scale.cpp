#include "scale.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "../../optim/step/step_state.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/late_result.h"
#include "../../tensor/core/registry.h"
#include "../../tensor/memory/transfer.h"
#include "../../tensor/ops/elementwise/operators.h"
#include "../../tensor/text/text.h"
#include "../diagnose/nonfinite_gradient.h"
#include "gradients.h"

namespace mezzo::amp {

std::string_view name(ScaleReason reason) {
  constexpr std::array<std::string_view, 4> names{"overflow", "growth", "set", "restored"};
  return names[static_cast<std::size_t>(reason)];
}

std::string ScaleEvent::text() const {
  return str("step ", step, ": ", old_scale, " -> ", new_scale, " (", name(reason),
             first_nonfinite.empty() ? "" : ", ", first_nonfinite, ")");
}

// ---- for users ----------------------------------------------------------------------------------

namespace {

ScaleState initial_state(const Options& options) {
  const bool dynamic = options.dynamic();
  const double min_scale = options.min_loss_scale.value_or(0), max_scale = options.max_loss_scale;
  return {.min_scale = min_scale,
          .max_scale = max_scale,
          .dynamic = dynamic,
          .scale = dynamic ? std::max(std::min(max_scale, 0x1p16), min_scale) : options.scale()};
}

}  // namespace

LossScaler::LossScaler(const Options& options) : LossScaler(initial_state(resolve(options))) {}

LossScaler::LossScaler(const ScaleState& state) {
  check(state);
  set(state);
  optimizers = std::make_shared<OptimizerTable>();
  events_.reserve(kEvents);
}

void LossScaler::check(const ScaleState& s) {
  const auto require = [](bool holds, std::string_view what, double got,
                          std::string_view expected) {
    if (!holds)
      fail<ValueError>("loss scaler", {.what = str(what, " is out of range"),
                                       .got = str(got),
                                       .expected = std::string(expected)});
  };
  require(std::isfinite(s.growth_factor) && s.growth_factor > 1, "growth_factor", s.growth_factor,
          "a number > 1");
  require(s.backoff_factor > 0 && s.backoff_factor < 1, "backoff_factor", s.backoff_factor,
          "a number in (0, 1)");
  require(s.growth_interval >= 1, "growth_interval", static_cast<double>(s.growth_interval),
          "at least 1");
  require(s.hysteresis >= 1, "hysteresis", static_cast<double>(s.hysteresis), "at least 1");
  require(s.max_scale > 0, "max_scale", s.max_scale, "a number > 0");
  require(s.min_scale >= 0 && s.min_scale <= s.max_scale && std::isfinite(s.stored(s.min_scale)),
          "min_scale", s.min_scale, "a number from 0 to max_scale");
  require(is_usable_scale(s.scale), "scale", s.scale, "a number from 2^-126 to 3.4e38");
  require(s.hysteresis_left >= 0 && s.hysteresis_left <= s.hysteresis, "hysteresis_tracker",
          static_cast<double>(s.hysteresis_left), "a count up to hysteresis");
  require(s.unskipped >= 0, "the counter", static_cast<double>(s.unskipped), "at least 0");
}

void LossScaler::copy(const LossScaler& other) {
  const std::vector<ScaleEvent> events = other.events();
  change(other.state(), {});
  events_ = events;
}

const ScaleState& LossScaler::state() const {
  auto& self = const_cast<LossScaler&>(*this);
  self.finish_pending();
  if (!ahead_) return state_;
  const ScaleState former = state_;
  download(memory_, &self.state_, sizeof state_);
  self.ahead_ = false;
  self.note_change(former);
  return state_;
}

void LossScaler::set(const ScaleState& changed) {
  state_ = changed;
  state_.scale = changed.stored(changed.scale);
  sent_ = false;
  ++version_;
  if (use_.use_count() == 1) use_.reset();
}

void LossScaler::change(const ScaleState& changed, std::optional<ScaleReason> reason) {
  check(changed);
  const double former = state().scale;
  set(changed);
  if (reason) note(former, *reason);
}

void LossScaler::restore(double scale, std::int64_t unskipped, ScaleReason reason) {
  ScaleState changed = state();
  changed.scale = scale;
  changed.unskipped = unskipped;
  change(changed, reason);
}

bool LossScaler::update(bool overflow, std::string first_nonfinite) {
  const ScaleState former = state();
  ScaleState changed = former;
  if (overflow) changed.first = optim::kUnknownLocation;
  changed.complete(true);
  set(changed);
  note_change(former, std::move(first_nonfinite));
  return dynamic() && overflow;
}

// ---- events -------------------------------------------------------------------------------------

void LossScaler::note(double former, ScaleReason reason, std::string first_nonfinite) {
  if (events_.size() == kEvents) events_.erase(events_.begin());
  events_.push_back({state_.checks, former, state_.scale, reason, std::move(first_nonfinite)});
}

/** Adds an event if the state has changed since `former`. */
void LossScaler::note_change(const ScaleState& former, std::string first_nonfinite) {
  if (state_.overflows != former.overflows)
    note(former.scale, ScaleReason::overflow,
         first_nonfinite.empty()
             ? nonfinite_gradient_text(*optimizers, state_.first_nonfinite, overflow_origin)
             : std::move(first_nonfinite));
  else if (state_.scale != former.scale)
    note(former.scale, ScaleReason::growth);
}

// ---- the product with the scale ----------------------------------------------------------------

namespace {

/** Returns x times a scale on its device. If that is one number, it is computed when it is read: a
 *  backward pass does not read it, since it starts from the gradient 1, and the gradient of x is
 *  the scale. */
Tensor product(const Tensor& x, const Tensor& scale) {
  if (x.dtype() != f32 || x.numel() != 1 || x.impl()->is_scalar || !can_be_late(x))
    return x * scale;
  static const OpInfo& info = *find_op("mul");
  return late_result(
      info, {x, scale}, std::make_shared<NoAttrs>(),
      {.op = "amp::scale_loss",
       .read = "a scaled loss is first read",
       .modified =
           "a loss was modified in place, and its product with the loss scale is read afterwards",
       .hint = "read the scaled loss first, or use the out-of-place form"});
}

}  // namespace

// ---- the device ---------------------------------------------------------------------------------

void LossScaler::send() {
  compute_late_results_of(scale32_);
  if (sent_) return;
  const auto narrow = static_cast<float>(state_.scale);
  upload(memory_, &state_, sizeof state_);
  upload(scale32_, &narrow, sizeof narrow);
  upload(scale64_, &state_.scale, sizeof state_.scale);
  sent_ = true;
}

/** Uploads the host's changes: now, in a captured step before each replay. */
void LossScaler::follow_host() {
  if (Capture* const capture = Capture::current())
    capture->join(shared_from_this());
  else if (!sent_)
    send();
}

void LossScaler::move_to(Device to) {
  finish_pending();
  if (to == device_) return;
  (void)state();
  if (to != cpu) {
    const Tensor memory = record_tensor<ScaleState>(1, to);
    allocate_scales(to);
    memory_ = memory;
  }
  device_ = to;
  sent_ = false;
}

void LossScaler::allocate_scales(Device to) {
  const NoCapturePool lasting;
  const Tensor narrow = empty_tensor({}, DType::f32, to), wide = empty_tensor({}, DType::f64, to);
  scale32_ = narrow;
  scale64_ = wide;
}

void LossScaler::after_replay() {
  ahead_ = true;
  ++version_;
  if (use_.use_count() == 1) use_.reset();
}

void LossScaler::abandon_capture() noexcept {
  pending_ = {};
  if (on_abandon) on_abandon();
}

ScaleValue LossScaler::on(Device device) {
  if (device == cpu || !dynamic())
    return {.scaler = this, .on_host = loss_scale(), .version = version_};
  move_to(device);
  follow_host();
  if (!use_) use_ = std::make_shared<char>();
  return {.scaler = this, .on_device = scale64_, .version = version_, .use = use_};
}

Tensor LossScaler::times(const Tensor& x) {
  const Tensor wide = is_low(x.dtype()) ? x.to(f32) : x;
  if (!on(x.device()).on_device.defined()) return wide * loss_scale();
  return product(wide, wide.dtype() == DType::f64 ? scale64_ : scale32_);
}

// ---- calls --------------------------------------------------------------------------------------

bool LossScaler::is_pending(const optim::FoundInf& found_inf) const {
  return found_inf.word.defined() && pending_.word.is_same(found_inf.word);
}

/** Makes the end of a step work on the scale, on its device. */
void LossScaler::attach(optim::StepEnd& end) {
  if (device_ == cpu) {
    end.scale = &state_;
    return;
  }
  follow_host();
  if (end.completes) compute_late_results_of(scale32_);
  if (end.completes && use_.use_count() > 1) {
    if (Capture::current())
      fail<Unsupported>(
          "amp::scale_loss",
          {.what = "scopes of one loss scaler are nested while a step is being captured",
           .hint = "close one before the next begins, or give them loss_ids of their own"});
    allocate_scales(device_);
  }
  end.scale = static_cast<ScaleState*>(memory_.raw_data());
  end.scale32 = scale32_.data<float>();
  end.scale64 = scale64_.data<double>();
}

/** Notes that a kernel has done the end of a step, which had the scale. */
void LossScaler::ended(const optim::StepEnd& end) {
  if (end.completes) {
    ++version_;
    use_.reset();
  }
  if (pending_.data() == end.found_inf) pending_ = {};
  if (device_ != cpu && !Capture::current()) ahead_ = true;
}

void LossScaler::run(optim::StepEnd end, const optim::FoundInf& found_inf,
                     std::span<optim::NonfiniteWord* const> raised) {
  const ScaleState former = state_;
  end.found_inf = found_inf.data();
  attach(end);
  optim::end_kernel(device_.kind)(end, raised, device_);
  ended(end);
  if (device_ == cpu) note_change(former);
}

void LossScaler::defer(const optim::FoundInf& found_inf) {
  pending_ = found_inf;
  if (device_ == cpu) finish_pending();
}

void LossScaler::finish_pending(bool resets) {
  if (!pending_.word.defined()) return;
  run({.resets = resets, .completes = true, .any = true}, std::exchange(pending_, {}));
}

void LossScaler::add(optim::FoundInf& found_inf, bool completes, bool any) {
  if (found_inf.word.defined()) amp::move_to(device_, found_inf);
  run({.resets = true, .completes = completes, .any = any}, found_inf);
}

void LossScaler::add_to(optim::StepEnd& end, const optim::FoundInf& found_inf) {
  const bool completes = is_pending(found_inf);
  if (found_inf.word.device() != device_ || found_inf.data() != end.found_inf ||
      (completes && use_.use_count() > 1))
    return;
  end.resets = true;
  end.completes = end.any = completes;
  if (completes) attach(end);
}

void LossScaler::finish_step(const optim::FoundInf& found_inf, const optim::StepEnd& end) {
  if (end.scale)
    ended(end);
  else if (is_pending(found_inf))
    finish_pending(true);
  else if (!end.resets)
    found_inf.reset();
}

}  // namespace mezzo::amp
