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
  scale_ = scale;
}

void LossScaler::restore(double scale, std::int64_t unskipped) {
  check(scale, unskipped);
  scale_ = scale;
  unskipped_ = unskipped;
}

bool LossScaler::update(bool overflow) {
  if (dynamic_ && overflow) {
    scale_ = std::max({scale_ / kFactor, min_, kFloor});
    unskipped_ = 0;
    return true;
  }
  ++unskipped_;
  if (dynamic_ && unskipped_ == kWindow) {
    scale_ = std::min(max_, kFactor * scale_);
    unskipped_ = 0;
  }
  return false;
}

}  // namespace mezzo::amp
