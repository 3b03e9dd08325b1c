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

void CapturedSteps::finish_capture() { addresses_ = addresses_of(state_->optimizer()); }

void CapturedSteps::before_replay() {
  if (addresses_of(state_->optimizer()) == addresses_) return;
  fail<StateError>(
      "Graph.replay",
      {.what = "the memory of an optimizer's parameters or states has changed since the capture",
       .hint = "capture the step again after moving or converting a model, or dropping states"});
}

void CapturedSteps::after_replay() { state_->run_ahead(steps); }

}  // namespace mezzo::optim
