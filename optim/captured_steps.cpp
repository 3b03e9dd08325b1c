#include "captured_steps.h"

#include "device_step_state.h"
#include "optimizer.h"

namespace mezzo::optim {

namespace {

/** Returns the addresses of an optimizer's parameters, masters and states. */
std::vector<const void*> addresses_of(const Optimizer& optimizer) {
  std::vector<const void*> addresses;
  const auto add = [&](const Tensor& x) {
    addresses.push_back(x.defined() ? x.raw_data() : nullptr);
  };
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const Slot& slot : optimizer.slots(group)) {
      add(slot.param);
      add(slot.master);
      for (const Tensor& state : slot.state) add(state);
    }
  return addresses;
}

}  // namespace

void CapturedSteps::finish_capture() {
  state_->flush();
  state_->end_capture();
  addresses_ = addresses_of(state_->optimizer());
}

void CapturedSteps::abandon_capture() noexcept {
  state_->end_capture();
  Optimizer* const optimizer = state_->owner();
  if (!optimizer) return;
  if (OptimizerHooks* hooks = optimizer->hooks()) hooks->capture_abandoned(*optimizer);
}

void CapturedSteps::before_replay() {
  Optimizer& optimizer = state_->optimizer();
  state_->counters().require_count(optimizer);
  state_->flush();
  if (OptimizerHooks* hooks = optimizer.hooks()) hooks->before_replay(optimizer);
  state_->send();
  if (addresses_of(optimizer) == addresses_) return;
  fail<StateError>(
      "Graph.replay",
      {.what = "the memory of an optimizer's parameters or states has changed since the capture",
       .hint = "capture the step again after moving or converting a model, or dropping states"});
}

void CapturedSteps::after_replay() {
  Optimizer& optimizer = state_->optimizer();
  state_->run_ahead(steps);
  optimizer.written();
  if (OptimizerHooks* hooks = optimizer.hooks()) hooks->after_replay(optimizer);
  state_->poll(steps);
}

}  // namespace mezzo::optim
