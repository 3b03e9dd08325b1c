#include "step_clock.h"

#include <algorithm>
#include <array>

#include "../tensor/text.h"
#include "optimizer.h"

namespace mezzo::optim {

namespace {

void count_on_cpu(const ClockCall& call, Device) {
  const bool skip = call.found_inf && *call.found_inf != 0;
  for (int i = 0; i < call.count && !skip; ++i)
    if (call.takes_part(i)) call.clocks[i].advance();
  if (call.record) call.record->note(skip, call.limit);
}

template <class T> T* address(const Tensor& memory) { return static_cast<T*>(memory.raw_data()); }

}  // namespace

ClockKernels& clock_kernels(DeviceKind kind) {
  static std::array<ClockKernels, kNumDeviceKinds> kernels{{{&count_on_cpu}}};
  return kernels[static_cast<std::size_t>(kind)];
}

// ---- what a captured step works with ----------------------------------------------------------------------------------------

namespace {

/** Parameters, masters and states of an optimizer, by where they lie. */
std::vector<const void*> places_of(const Optimizer& optimizer) {
  std::vector<const void*> places;
  const auto add = [&](const Tensor& x) { places.push_back(x.defined() ? x.raw_data() : nullptr); };
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    for (const Slot& slot : optimizer.slots(group)) {
      add(slot.param);
      add(slot.master);
      for (const Tensor& state : slot.state) add(state);
    }
  return places;
}

}  // namespace

/** A captured step's view of an optimizer: replays work in the memory that it had then, which others may have been given since. */
class StepClock::Places final : public CaptureGuest {
 public:
  explicit Places(std::shared_ptr<const StepClock> clock) : clock_(std::move(clock)) {}

  void finish_capture() override { places_ = places_of(clock_->optimizer()); }
  void before_replay() override {
    if (places_of(clock_->optimizer()) == places_) return;
    fail<StateError>(
        "Graph.replay",
        {.what = "an optimizer's parameters or states have other memory than when the step was captured",
         .hint = "capture the step again after moving or converting a model, or dropping states"});
  }
  void after_replay() override {}

 private:
  std::shared_ptr<const StepClock> clock_;
  std::vector<const void*> places_;
};

Optimizer& StepClock::optimizer() const {
  if (!optimizer_)
    fail<StateError>("Graph.replay", {.what = "an optimizer of the captured step has ended",
                                      .hint = "keep it as long as the graph"});
  return *optimizer_;
}

// ---- from the host to the device ------------------------------------------------------------------------------------------

std::vector<ParamClock> StepClock::of_host() const {
  std::vector<ParamClock> clocks;
  for (std::size_t group = 0; group < optimizer().num_groups(); ++group) {
    const auto betas = optimizer().corrected_betas(group);
    for (const Slot& slot : std::as_const(optimizer()).slots(group)) {
      ParamClock& clock =
          clocks.emplace_back(ParamClock{.beta1 = betas.first, .beta2 = betas.second, .steps = slot.steps});
      clock.prepare();
    }
  }
  return clocks;
}

std::vector<double> StepClock::rates_of_host() const {
  std::vector<double> rates;
  for (std::size_t group = 0; group < optimizer().num_groups(); ++group)
    rates.push_back(optimizer().lr(group));
  return rates;
}

void StepClock::send_rates() {
  std::vector<double> rates = rates_of_host();
  if (rates == sent_rates_) return;
  upload(rates_, rates.data(), rates.size() * sizeof(double));
  sent_rates_ = std::move(rates);
}

void StepClock::send() {
  const std::vector<ParamClock> clocks = of_host();
  const StepRecord record{.consecutive_skips = optimizer().consecutive_skips_};
  upload(clocks_, clocks.data(), clocks.size() * sizeof(ParamClock));
  upload(record_, &record, sizeof record);
  current_ = true;
}

void StepClock::start(Device device) {
  std::vector<std::pair<double, double>> betas;
  std::vector<std::size_t> first;
  std::size_t count = 0;
  for (std::size_t group = 0; group < optimizer().num_groups(); ++group) {
    betas.push_back(optimizer().corrected_betas(group));
    first.push_back(count);
    count += optimizer().slots(group).size();
  }
  const bool fits = clocks_.defined() && clocks_.device() == device && count == count_ && first == first_;
  const bool as_before = fits && betas == sent_betas_;
  Capture* const capture = Capture::current();
  Capture::require_prepared("step", !owed_ && (as_before || !ahead_),
                            "an optimizer has changed since its last step");
  if (!capture) flush();
  if (!as_before) {
    settle();
    current_ = false;
  }
  if (!fits) {
    const LastingMemory lasting;
    const Tensor clocks = record_tensor<ParamClock>(static_cast<std::int64_t>(count), device),
                 rates = empty_tensor({static_cast<std::int64_t>(first.size())}, DType::f64, device),
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

DeviceTime StepClock::time_of(std::size_t group, std::size_t index) const {
  return {rates_.data<double>() + group, address<const ParamClock>(clocks_) + first_[group] + index};
}

// ---- counting on the device ---------------------------------------------------------------------------------------------------

StepClock::Owed StepClock::owed(std::span<const ParamUpdate> updates, const Tensor& found_inf,
                                std::int64_t limit) const {
  Owed owed{std::vector<std::uint64_t>((count_ + 63) / 64), found_inf, limit};
  for (const ParamUpdate& u : updates) {
    const std::size_t i = first_[u.group] + u.index;
    owed.taking_part[i / 64] |= std::uint64_t{1} << (i % 64);
  }
  return owed;
}

void StepClock::owe(Owed owed) {
  owed_ = std::move(owed);
  if (!Capture::current()) ahead_ = true;
}

std::optional<ClockCall> StepClock::take_owed() {
  if (!owed_) return std::nullopt;
  const Owed owed = std::move(*owed_);
  owed_.reset();
  ClockCall call;
  for (std::size_t done = 0;; done += ClockCall::kMost) {
    call = {.clocks = address<ParamClock>(clocks_) + done,
            .found_inf = owed.found_inf.defined() ? owed.found_inf.data<float>() : nullptr,
            .limit = owed.limit,
            .count = static_cast<std::int32_t>(std::min<std::size_t>(count_ - done, ClockCall::kMost))};
    const std::size_t words = owed.taking_part.size() - done / 64;
    std::copy_n(owed.taking_part.begin() + static_cast<std::ptrdiff_t>(done / 64),
                std::min<std::size_t>(words, ClockCall::kWords), call.taking_part);
    if (done + ClockCall::kMost >= count_) break;
    clock_kernels(device().kind).count(call, device());
  }
  call.record = address<StepRecord>(record_);
  return call;
}

void StepClock::flush() {
  if (const auto call = take_owed()) clock_kernels(device().kind).count(*call, device());
}

// ---- from the device to the host ------------------------------------------------------------------------------------------------

void StepClock::settle() {
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
  optimizer().consecutive_skips_ = record.consecutive_skips;
  optimizer().last_result_ = record.last_was_skipped != 0 ? StepResult::skipped : StepResult::stepped;
  ahead_ = false;
}

StepRecord StepClock::record() {
  flush();
  StepRecord record;
  download(record_, &record, sizeof record);
  return record;
}

std::unique_ptr<Readback> StepClock::record_later() {
  flush();
  return read_later(record_, sizeof(StepRecord));
}

// ---- replays ------------------------------------------------------------------------------------------------------------------------

void StepClock::before_replay() {
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
  if (Attachment* attachment = optimizer().attachment()) attachment->before_replay(optimizer());
  if (!current_) send();
  send_rates();
}

void StepClock::join_capture() {
  Capture* const capture = Capture::current();
  if (!capture) return;
  capture->join(shared_from_this());
  capture->join(std::make_shared<Places>(shared_from_this()));
}

void StepClock::abandon_capture() noexcept {
  owed_.reset();
  if (!optimizer_) return;
  if (Attachment* attachment = optimizer_->attachment()) attachment->capture_abandoned(*optimizer_);
}

void StepClock::after_replay() {
  ahead_ = true;
  optimizer().written();
  if (Attachment* attachment = optimizer().attachment()) attachment->after_replay(optimizer());
}

}  // namespace mezzo::optim
