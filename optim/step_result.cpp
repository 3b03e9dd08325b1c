#include "step_result.h"

#include "../tensor/device/capture.h"
#include "device_step_state.h"

namespace mezzo::optim {

static_assert(StepResult::kKept == StepRecord::kRecent);

StepResult::StepResult(std::shared_ptr<DeviceStepState> device, std::int64_t steps)
    : value_(stepped), device_(std::move(device)), steps_(steps) {}

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
  switch (result) {
    case StepResult::stepped: return "stepped";
    case StepResult::skipped: return "skipped";
    case StepResult::no_grads: break;
  }
  return "no_grads";
}

}  // namespace mezzo::optim
