#include "scaler.h"

#include <algorithm>
#include <cmath>

#include "../tensor/text.h"

namespace mezzo::amp {

LossScaler::LossScaler(const Properties& properties)
    : scale_(properties.loss_scale),
      min_(properties.min_loss_scale.value_or(kFloor)),
      max_(properties.max_loss_scale),
      dynamic_(properties.dynamic()) {
  if (dynamic_) scale_ = std::max(std::min(max_, kInitialScale), properties.min_loss_scale.value_or(0));
}

void LossScaler::check(double scale, std::int64_t unskipped) {
  if (!std::isfinite(scale) || scale <= 0)
    fail<ValueError>("loss scaler", {.what = "a loss scale is finite and positive", .got = str(scale)});
  if (unskipped < 0)
    fail<ValueError>("loss scaler", {.what = "a counter is not negative", .got = str(unskipped)});
}

void LossScaler::set_loss_scale(double scale) {
  check(scale, 0);
  history_.note(scale_, scale, ScaleReason::set);
  scale_ = scale;
}

void LossScaler::restore(double scale, std::int64_t unskipped) {
  check(scale, unskipped);
  history_.note(scale_, scale, ScaleReason::restored);
  scale_ = scale;
  unskipped_ = unskipped;
}

bool LossScaler::update(bool overflow, const std::string& culprit) {
  history_.tick();
  const double former = scale_;
  if (dynamic_ && overflow) {
    scale_ = std::max({scale_ / kFactor, min_, kFloor});
    unskipped_ = 0;
  } else {
    ++unskipped_;
    if (dynamic_ && unskipped_ == kWindow) {
      scale_ = std::min(max_, kFactor * scale_);
      unskipped_ = 0;
    }
  }
  if (overflow)
    history_.note(former, scale_, ScaleReason::overflow, culprit);
  else if (scale_ != former)
    history_.note(former, scale_, ScaleReason::growth);
  return dynamic_ && overflow;
}

}  // namespace mezzo::amp
