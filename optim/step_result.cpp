#include "step_result.h"

#include <array>

#include "../tensor/device/capture.h"
#include "device_step_state.h"

namespace mezzo::optim {

StepResult::Value StepResult::value() const {
  if (!device_) return value_;
  if (steps_ < 0 || Capture::current())
    fail<StateError>("StepResult",
                     {.what = "the overflow flag is unknown while a step is being captured",
                      .hint = "look at optimizer.last_result() after a replay"});
  value_ = device_->was_skipped(steps_) ? skipped : stepped;
  device_.reset();
  return value_;
}

std::string_view name(StepResult::Value result) {
  constexpr std::array<std::string_view, 3> names{"stepped", "skipped", "no_grads"};
  return names[result];
}

}  // namespace mezzo::optim
