#include "device_step_state.h"

#include <algorithm>
#include <array>

#include "../tensor/text/text.h"
#include "captured_steps.h"
#include "optimizer.h"

namespace mezzo::optim {

StepKernel& step_kernel(DeviceKind kind) {
  static std::array<StepKernel, kNumDeviceKinds> kernels{
      [](const StepCall& call, Device) { call.run(0, 1); }};
  return kernels[static_cast<std::size_t>(kind)];
}

Optimizer& DeviceStepState::optimizer() const {
  if (!optimizer_)
    fail<StateError>("Graph.replay", {.what = "an optimizer of the captured step was destroyed",
                                      .hint = "keep it alive as long as the graph"});
  return *optimizer_;
}

// ---- steps --------------------------------------------------------------------------------------

void DeviceStepState::send() {
  if (!current_) {
    counters_.send(optimizer());
    upload(memory_, &record_, sizeof record_);
    current_ = true;
  }
  counters_.send_rates(optimizer());
}

void DeviceStepState::start(Device to) {
  const bool capturing = Capture::current() != nullptr;
  const bool unchanged = counters_.match(optimizer(), to);
  Capture::require_prepared("step", !pending_ && (unchanged || !ahead_),
                            "an optimizer has changed since its last step");
  if (!capturing) flush();
  if (!unchanged) {
    sync_to_host();
    current_ = false;
    const bool stays = memory_.defined() && memory_.device() == to;
    const Tensor memory = stays ? memory_ : record_tensor<StepRecord>(1, to);
    counters_.allocate(optimizer(), to);
    memory_ = memory;
  }
  if (capturing) return join_capture();
  send();
}

std::vector<StepCall> DeviceStepState::count_of(std::span<const ParamUpdate> updates,
                                                const FoundInf& found) const {
  std::vector<StepCall> calls;
  for (const ClockCall& clocks : counters_.count_of(updates))
    calls.push_back({clocks, found.data()});
  calls.back().record = static_cast<StepRecord*>(memory_.raw_data());
  calls.back().limit = skip_limit_;
  return calls;
}

std::int64_t DeviceStepState::defer(std::span<const StepCall> count, const FoundInf& found) {
  for (const StepCall& call : count) {
    flush();
    pending_ = call;
  }
  pending_flag_ = found;
  if (recording_) {
    ++recording_->steps;
    return -1;
  }
  run_ahead(1);
  return steps_ahead_;
}

void DeviceStepState::run_ahead(std::int64_t steps) {
  if (!ahead_) steps_ahead_ = record_.steps;
  steps_ahead_ += steps;
  ahead_ = true;
}

void DeviceStepState::flush() {
  if (pending_) step_kernel(device().kind)(take_pending(), device());
}

// ---- results ------------------------------------------------------------------------------------

void DeviceStepState::sync_to_host() {
  if (!ahead_) return;
  flush();
  StepRecord record;
  if (optimizer_) counters_.receive(*optimizer_);
  download(memory_, &record, sizeof record);
  record_ = record;
  ahead_ = false;
  if (!optimizer_) return;
  optimizer_->last_result_ = record.was_skipped(0) ? StepResult::skipped : StepResult::stepped;
  notify(record);
}

namespace {

bool is_same(const std::weak_ptr<OptimizerHooks>& a, const std::weak_ptr<OptimizerHooks>& b) {
  return !a.owner_before(b) && !b.owner_before(a);
}

}  // namespace

void DeviceStepState::observe(const std::weak_ptr<OptimizerHooks>& observer,
                              std::int64_t skip_limit) {
  if (!is_same(observer, observer_) && !observer_.expired()) {
    Capture::require_prepared("step", !ahead_, "another scaler has stepped the optimizer");
    sync_to_host();
    std::erase_if(former_observers_, [](const auto& former) { return former.first.expired(); });
    former_observers_.emplace_back(observer_, record_.consecutive_skips);
    record_.consecutive_skips = 0;
    const auto known =
        std::find_if(former_observers_.begin(), former_observers_.end(),
                     [&](const auto& former) { return is_same(former.first, observer); });
    if (known != former_observers_.end()) {
      record_.consecutive_skips = known->second;
      former_observers_.erase(known);
    }
    host_moved();
  }
  observer_ = observer;
  skip_limit_ = skip_limit;
}

void DeviceStepState::notify(const StepRecord& now) {
  if (now.steps < reported_.steps) return;  // a read of poll() that was started before sync_to_host
  const StepRecord known = std::exchange(reported_, now);
  const std::int64_t skips = now.skipped - known.skipped;
  if (skips <= 0) return;
  const bool diverged = now.divergences != known.divergences;
  if (const auto observer = observer_.lock())
    observer->skips_found(optimizer(), skips, diverged ? now.skips_at_divergence : 0);
}

void DeviceStepState::poll(std::int64_t steps) {
  since_read_ += steps;
  const bool is_due = since_read_ >= kPollSteps;
  std::unique_ptr<AsyncRead> former;
  if (read_ && (is_due || read_->arrived())) former = std::move(read_);
  if (is_due) {
    flush();
    read_ = read_later(memory_, sizeof(StepRecord));
    since_read_ = 0;
  }
  if (!former) return;
  former->wait();
  const auto& record = *static_cast<const StepRecord*>(former->data());
  // An error covers all steps so far, so that the next ones do not report them again.
  if (record.steps > reported_.steps && record.divergences != reported_.divergences) sync_to_host();
  notify(record);
}

bool DeviceStepState::was_skipped(std::int64_t steps) {
  sync_to_host();
  const std::int64_t age = record_.steps - steps;
  if (age >= StepResult::kKept)
    fail<StateError>("StepResult", {.what = "the result is too old",
                                    .got = str(age, " later steps"),
                                    .expected = str("fewer than ", StepResult::kKept),
                                    .hint = "look at a result before the next step"});
  return record_.was_skipped(age);
}

// ---- captured steps -----------------------------------------------------------------------------

void DeviceStepState::join_capture() {
  Capture* const capture = Capture::current();
  if (!capture) return;
  if (!recording_) recording_ = std::make_shared<CapturedSteps>(shared_from_this());
  capture->join(recording_);
}

void DeviceStepState::end_capture() noexcept {
  pending_.reset();
  recording_.reset();
}

}  // namespace mezzo::optim
