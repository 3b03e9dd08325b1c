#include "scaler.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "../tensor/text.h"

namespace mezzo::amp {

LossScaler::LossScaler(const Properties& properties)
    : rule_{.growth = kFactor,
            .backoff = 1 / kFactor,
            .least = properties.min_loss_scale.value_or(optim::kScaleFloor),
            .most = properties.max_loss_scale,
            .window = kWindow,
            .dynamic = properties.dynamic()},
      kept_({.scale = properties.loss_scale}) {
  if (rule_.dynamic)
    kept_.change().scale =
        std::max(std::min(rule_.most, kInitialScale), properties.min_loss_scale.value_or(0));
}

void LossScaler::check(double scale, std::int64_t unskipped) {
  if (!std::isfinite(scale) || scale <= 0)
    fail<ValueError>("loss scaler", {.what = "a loss scale is finite and positive", .got = str(scale)});
  if (unskipped < 0)
    fail<ValueError>("loss scaler", {.what = "a counter is not negative", .got = str(unskipped)});
}

void LossScaler::set_loss_scale(double scale) {
  check(scale, 0);
  make_room();
  note_seen();
  history_.note(state().scale, scale, ScaleReason::set);
  kept_.change().scale = scale;
}

void LossScaler::make_room() const { history_.make_room(); }

void LossScaler::restore(double scale, std::int64_t unskipped) {
  check(scale, unskipped);
  make_room();
  note_seen();
  history_.note(state().scale, scale, ScaleReason::restored);
  ScaleState& changed = kept_.change();
  changed.scale = scale;
  changed.unskipped = unskipped;
}

bool LossScaler::update(bool overflow, std::string culprit) {
  make_room();
  note_seen();
  history_.tick();
  const double former = state().scale;
  ScaleState& moved = kept_.change();
  moved.move(rule_, overflow);
  if (overflow)
    history_.note(former, moved.scale, ScaleReason::overflow, std::move(culprit));
  else if (moved.scale != former)
    history_.note(former, moved.scale, ScaleReason::growth);
  return rule_.dynamic && overflow;
}

// ---- deferred steps -------------------------------------------------------------------------------------------------------

void LossScaler::run_owed() const {
  if (owed_.flag.defined()) const_cast<LossScaler*>(this)->run(const_cast<LossScaler*>(this)->take_owed());
}

const ScaleState& LossScaler::state() const {
  run_owed();
  return kept_.state();
}

void LossScaler::note_seen() const {
  run_owed();
  history_.make_room();
  const std::optional<ScaleNews> news = kept_.take_news();
  if (!news) return;
  history_.tick(news->checks);
  if (news->overflowed)
    history_.note(news->former, news->now, ScaleReason::overflow,
                  namer_ ? namer_(optim::BadValue::of(news->culprit)) : "");
  else if (news->now != news->former)
    history_.note(news->former, news->now, ScaleReason::growth);
}

std::vector<ScaleEvent> LossScaler::events() const {
  note_seen();
  return history_.events();
}

const DeviceScale& LossScaler::on(Device device) {
  run_owed();
  device_ = device;
  return kept_.on(device);
}

ScaleCall LossScaler::call() {
  ScaleCall call = kept_.on(device_).call(rule_);
  call.moves = false;
  return call;
}

void LossScaler::owe(const FoundInf& found) {
  owed_ = found;
  ++device_checks_;
}

ScaleCall LossScaler::take_owed() {
  ScaleCall next = call();
  if (!owed_.flag.defined()) return next;
  next.noted = of_device(std::exchange(owed_, {}));
  next.any = next.moves = true;
  return next;
}

void LossScaler::run(const ScaleCall& call) { kept_.run(call); }

}  // namespace mezzo::amp
