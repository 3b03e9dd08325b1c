#include "scaler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../../tensor/text/text.h"

namespace mezzo::amp {

LossScaler::LossScaler(const Properties& properties)
    : rule_{.growth = kFactor,
            .backoff = 1 / kFactor,
            .least = properties.min_loss_scale.value_or(optim::kScaleFloor),
            .most = properties.max_loss_scale,
            .window = kWindow,
            .dynamic = properties.dynamic()},
      store_({.scale = properties.loss_scale}) {
  if (rule_.dynamic)
    store_.change().scale =
        std::max(std::min(rule_.most, kInitialScale), properties.min_loss_scale.value_or(0));
}

void LossScaler::check(double scale, std::int64_t unskipped) {
  if (!std::isfinite(scale) || scale <= 0)
    fail<ValueError>("loss scaler",
                     {.what = "the loss scale must be finite and positive", .got = str(scale)});
  if (unskipped < 0)
    fail<ValueError>("loss scaler",
                     {.what = "the counter must be non-negative", .got = str(unskipped)});
}

void LossScaler::set_loss_scale(double scale) {
  check(scale, 0);
  make_room();
  record_changes();
  history_.note(state().scale, scale, ScaleReason::set);
  store_.change().scale = scale;
}

void LossScaler::make_room() const { history_.make_room(); }

void LossScaler::restore(double scale, std::int64_t unskipped) {
  check(scale, unskipped);
  make_room();
  record_changes();
  history_.note(state().scale, scale, ScaleReason::restored);
  ScaleState& changed = store_.change();
  changed.scale = scale;
  changed.unskipped = unskipped;
}

bool LossScaler::update(bool overflow, std::string first_nonfinite) {
  make_room();
  record_changes();
  history_.tick();
  const double former = state().scale;
  ScaleState& moved = store_.change();
  moved.move(rule_, overflow);
  if (overflow)
    history_.note(former, moved.scale, ScaleReason::overflow, std::move(first_nonfinite));
  else if (moved.scale != former)
    history_.note(former, moved.scale, ScaleReason::growth);
  return rule_.dynamic && overflow;
}

// ---- deferred steps -----------------------------------------------------------------------------

void LossScaler::run_pending() const {
  if (pending_.flag.defined())
    const_cast<LossScaler*>(this)->run(const_cast<LossScaler*>(this)->take_pending());
}

const ScaleState& LossScaler::state() const {
  run_pending();
  return store_.state();
}

void LossScaler::record_changes() const {
  run_pending();
  history_.make_room();
  const std::optional<ScaleChanges> changes = store_.take_changes();
  if (!changes) return;
  history_.tick(changes->checks);
  if (changes->overflowed)
    history_.note(changes->former, changes->now, ScaleReason::overflow,
                  namer_ ? namer_(optim::NonfiniteLocation::of(changes->first_nonfinite)) : "");
  else if (changes->now != changes->former)
    history_.note(changes->former, changes->now, ScaleReason::growth);
}

std::vector<ScaleEvent> LossScaler::events() const {
  record_changes();
  return history_.events();
}

const DeviceScale& LossScaler::on(Device device) {
  run_pending();
  device_ = device;
  return store_.on(device);
}

ScaleCall LossScaler::call() {
  ScaleCall call = store_.on(device_).call(rule_);
  call.moves = false;
  return call;
}

void LossScaler::defer(const FoundInf& found) {
  pending_ = found;
  ++device_checks_;
}

ScaleCall LossScaler::take_pending() {
  ScaleCall next = call();
  if (!pending_.flag.defined()) return next;
  next.noted = of_device(std::exchange(pending_, {}));
  next.any = next.moves = true;
  return next;
}

void LossScaler::run(const ScaleCall& call) { store_.run(call); }

}  // namespace mezzo::amp
