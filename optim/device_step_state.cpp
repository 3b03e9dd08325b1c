#include "device_step_state.h"

#include <algorithm>
#include <array>

#include "../tensor/text/text.h"
#include "optimizer.h"

namespace mezzo::optim {

namespace {

void count_on_cpu(const ClockCall& call, Device) {
  const bool skip = call.found_inf && *call.found_inf != 0;
  for (int i = 0; i < call.count && !skip; ++i)
    if (call.takes_part(i)) call.clocks[i].advance();
  if (call.record) call.record->note(skip, call.limit);
}

constexpr std::size_t kMost = ClockCall::kMost;

template <class T> T* address(const Tensor& memory) { return static_cast<T*>(memory.raw_data()); }

}  // namespace

ClockKernels& clock_kernels(DeviceKind kind) {
  static std::array<ClockKernels, kNumDeviceKinds> kernels{{{&count_on_cpu}}};
  return kernels[static_cast<std::size_t>(kind)];
}

// ---- the memory of captured steps ---------------------------------------------------------------

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

/** Checks before each replay that the optimizer's tensors have the addresses that the graph
 *  recorded: memory that was freed since may belong to other tensors. Counts the steps of the
 *  replay. */
class DeviceStepState::MemoryCheck final : public CaptureParticipant {
 public:
  explicit MemoryCheck(std::shared_ptr<DeviceStepState> clock) : clock_(std::move(clock)) {}

  std::int64_t steps = 0;  // in one replay

  void finish_capture() override { addresses_ = addresses_of(clock_->optimizer()); }
  void before_replay() override {
    if (addresses_of(clock_->optimizer()) == addresses_) return;
    fail<StateError>(
        "Graph.replay",
        {.what = "the memory of an optimizer's parameters or states has changed since the capture",
         .hint = "capture the step again after moving or converting a model, or dropping states"});
  }
  void after_replay() override { clock_->run_ahead(steps); }

 private:
  std::shared_ptr<DeviceStepState> clock_;
  std::vector<const void*> addresses_;
};

Optimizer& DeviceStepState::optimizer() const {
  if (!optimizer_)
    fail<StateError>("Graph.replay", {.what = "an optimizer of the captured step was destroyed",
                                      .hint = "keep it alive as long as the graph"});
  return *optimizer_;
}

// ---- from the host to the device ----------------------------------------------------------------

std::vector<ParamClock> DeviceStepState::of_host() const {
  std::vector<ParamClock> clocks;
  for (std::size_t group = 0; group < optimizer().num_groups(); ++group) {
    const auto betas = optimizer().corrected_betas(group);
    for (const Slot& slot : std::as_const(optimizer()).slots(group)) {
      ParamClock& clock = clocks.emplace_back(
          ParamClock{.beta1 = betas.first, .beta2 = betas.second, .steps = slot.steps});
      clock.prepare();
    }
  }
  return clocks;
}

std::vector<double> DeviceStepState::rates_of_host() const {
  std::vector<double> rates;
  for (std::size_t group = 0; group < optimizer().num_groups(); ++group)
    rates.push_back(optimizer().lr(group));
  return rates;
}

void DeviceStepState::send_rates() {
  std::vector<double> rates = rates_of_host();
  if (rates == sent_rates_) return;
  upload(rates_, rates.data(), rates.size() * sizeof(double));
  sent_rates_ = std::move(rates);
}

void DeviceStepState::send() {
  const std::vector<ParamClock> clocks = of_host();
  upload(clocks_, clocks.data(), clocks.size() * sizeof(ParamClock));
  upload(record_, &optimizer().record_, sizeof(StepRecord));
  current_ = true;
}

void DeviceStepState::start(Device device) {
  std::vector<std::pair<double, double>> betas;
  std::vector<std::size_t> first;
  std::size_t count = 0;
  for (std::size_t group = 0; group < optimizer().num_groups(); ++group) {
    betas.push_back(optimizer().corrected_betas(group));
    first.push_back(count);
    count += optimizer().slots(group).size();
  }
  const bool fits =
      clocks_.defined() && clocks_.device() == device && count == count_ && first == first_;
  const bool unchanged = fits && betas == sent_betas_;
  Capture* const capture = Capture::current();
  Capture::require_prepared("step", pending_.empty() && (unchanged || !ahead_),
                            "an optimizer has changed since its last step");
  if (!capture) flush();
  if (!unchanged) {
    sync_to_host();
    current_ = false;
  }
  if (!fits) {
    const NoCapturePool lasting;
    const Tensor clocks = record_tensor<ParamClock>(static_cast<std::int64_t>(count), device),
                 rates =
                     empty_tensor({static_cast<std::int64_t>(first.size())}, DType::f64, device),
                 record = record_tensor<StepRecord>(1, device);
    clocks_ = clocks;
    rates_ = rates;
    record_ = record;
    sent_rates_.clear();
  }
  first_ = std::move(first);
  count_ = count;
  sent_betas_ = std::move(betas);
  if (capture) return join_capture();
  if (!current_) send();
  send_rates();
}

DeviceTime DeviceStepState::time_of(std::size_t group, std::size_t index) const {
  return {rates_.data<double>() + group,
          address<const ParamClock>(clocks_) + first_[group] + index};
}

// ---- counting on the device ---------------------------------------------------------------------

std::vector<ClockCall> DeviceStepState::count_of(std::span<const ParamUpdate> updates,
                                                 const Tensor& found_inf,
                                                 std::int64_t limit) const {
  const ClockCall common{.found_inf = found_inf.defined() ? found_inf.data<float>() : nullptr,
                         .limit = limit};
  std::vector<ClockCall> calls(std::max<std::size_t>(1, (count_ + kMost - 1) / kMost), common);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].clocks = address<ParamClock>(clocks_) + i * kMost;
    calls[i].count = static_cast<std::int32_t>(std::min(count_ - i * kMost, kMost));
  }
  calls.back().record = address<StepRecord>(record_);
  for (const ParamUpdate& u : updates) {
    const std::size_t i = first_[u.group] + u.index;
    calls[i / kMost].taking_part[i % kMost / 64] |= std::uint64_t{1} << (i % 64);
  }
  return calls;
}

std::int64_t DeviceStepState::defer(std::vector<ClockCall> count, const Tensor& found_inf) {
  pending_ = std::move(count);
  pending_flag_ = found_inf;
  if (recording_) {
    ++recording_->steps;
    return -1;
  }
  run_ahead(1);
  return steps_ahead_;
}

void DeviceStepState::run_ahead(std::int64_t steps) {
  if (!ahead_) steps_ahead_ = optimizer().record_.steps;
  steps_ahead_ += steps;
  ahead_ = true;
}

std::optional<ClockCall> DeviceStepState::take_pending() {
  if (pending_.empty()) return std::nullopt;
  const std::vector<ClockCall> calls = std::exchange(pending_, {});
  for (std::size_t i = 0; i + 1 < calls.size(); ++i)
    clock_kernels(device().kind).count(calls[i], device());
  return calls.back();
}

void DeviceStepState::flush() {
  if (const auto call = take_pending()) clock_kernels(device().kind).count(*call, device());
}

// ---- from the device to the host ----------------------------------------------------------------

void DeviceStepState::sync_to_host() {
  if (!ahead_) return;
  flush();
  std::vector<ParamClock> clocks(count_);
  download(clocks_, clocks.data(), clocks.size() * sizeof(ParamClock));
  std::size_t i = 0;
  for (std::size_t group = 0; group < first_.size(); ++group)
    for (Slot& slot : optimizer().slots(group))
      if (i < count_) slot.steps = clocks[i++].steps;
  StepRecord record;
  download(record_, &record, sizeof record);
  optimizer().record_ = record;
  optimizer().last_result_ = record.was_skipped(0) ? StepResult::skipped : StepResult::stepped;
  ahead_ = false;
  tell(record);
}

// ---- results ------------------------------------------------------------------------------------

void DeviceStepState::tell(const StepRecord& now) {
  if (now.steps < told_.steps) return;  // a poll that arrives after a later look
  const StepRecord known = std::exchange(told_, now);
  const std::int64_t skips = now.skipped - known.skipped;
  if (skips <= 0) return;
  const bool diverged = now.divergences != known.divergences;
  if (const auto observer = observer_.lock())
    observer->skips_found(optimizer(), skips, diverged ? now.skips_at_divergence : 0);
}

void DeviceStepState::poll() {
  if (++polls_ % kPollSteps == 0) {
    flush();
    read_ = read_later(record_, sizeof(StepRecord));
  }
  if (!read_ || !read_->arrived()) return;
  const std::unique_ptr<AsyncRead> arrived = std::move(read_);
  tell(*static_cast<const StepRecord*>(arrived->data()));
}

bool DeviceStepState::was_skipped(std::int64_t steps) {
  if (optimizer_) {
    sync_to_host();
  } else if (std::exchange(ahead_, false)) {
    flush();
    download(record_, &final_, sizeof final_);
  }
  const StepRecord& record = optimizer_ ? optimizer_->record_ : final_;
  const std::int64_t age = record.steps - steps;
  if (age >= StepRecord::kRecent)
    fail<StateError>("StepResult", {.what = "the result is too old",
                                    .got = str(age, " later steps"),
                                    .expected = str("fewer than ", StepRecord::kRecent),
                                    .hint = "look at a result before the next step"});
  return record.was_skipped(age);
}

void DeviceStepState::detach() {
  if (!ahead_) final_ = optimizer_->record_;
  optimizer_ = nullptr;
}

// ---- replays ------------------------------------------------------------------------------------

void DeviceStepState::before_replay() {
  std::size_t count = 0;
  for (std::size_t group = 0; group < optimizer().num_groups(); ++group)
    count += optimizer().slots(group).size();
  if (count != count_)
    fail<StateError>("Graph.replay",
                     {.what = "parameters were added to an optimizer since the step was captured",
                      .got = str(count, " parameters"),
                      .expected = str(count_),
                      .hint = "capture the step again"});
  flush();
  if (OptimizerHooks* hooks = optimizer().hooks()) hooks->before_replay(optimizer());
  if (!current_) send();
  send_rates();
}

void DeviceStepState::join_capture() {
  Capture* const capture = Capture::current();
  if (!capture) return;
  if (!recording_) recording_ = std::make_shared<MemoryCheck>(shared_from_this());
  capture->join(shared_from_this());
  capture->join(recording_);
}

void DeviceStepState::finish_capture() {
  flush();
  recording_.reset();
}

void DeviceStepState::abandon_capture() noexcept {
  pending_.clear();
  recording_.reset();
  if (!optimizer_) return;
  if (OptimizerHooks* hooks = optimizer_->hooks()) hooks->capture_abandoned(*optimizer_);
}

void DeviceStepState::after_replay() {
  run_ahead(0);
  optimizer().written();
  if (OptimizerHooks* hooks = optimizer().hooks()) hooks->after_replay(optimizer());
  poll();
}

}  // namespace mezzo::optim
