#include "device_counters.h"

#include <algorithm>

#include "../tensor/memory/transfer.h"
#include "../tensor/text/text.h"
#include "optimizer.h"

namespace mezzo::optim {

namespace {

constexpr std::size_t kMost = ClockCall::kMost;

std::size_t count_params(const Optimizer& optimizer) {
  std::size_t count = 0;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    count += optimizer.slots(group).size();
  return count;
}

std::vector<std::size_t> firsts_of(const Optimizer& optimizer) {
  std::vector<std::size_t> firsts;
  std::size_t count = 0;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group) {
    firsts.push_back(count);
    count += optimizer.slots(group).size();
  }
  return firsts;
}

}  // namespace

std::vector<std::pair<double, double>> DeviceCounters::betas_of(const Optimizer& optimizer) {
  std::vector<std::pair<double, double>> betas;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    betas.push_back(optimizer.corrected_betas(group));
  return betas;
}

bool DeviceCounters::match(const Optimizer& optimizer, Device to) const {
  return clocks_.defined() && device() == to && count_params(optimizer) == count_ &&
         firsts_of(optimizer) == first_ && betas_of(optimizer) == betas_;
}

void DeviceCounters::require_count(const Optimizer& optimizer) const {
  const std::size_t count = count_params(optimizer);
  if (count != count_)
    fail<StateError>("Graph.replay",
                     {.what = "parameters were added to an optimizer since the step was captured",
                      .got = str(count, " parameters"),
                      .expected = str(count_),
                      .hint = "capture the step again"});
}

void DeviceCounters::allocate(const Optimizer& optimizer, Device to) {
  std::vector<std::size_t> first = firsts_of(optimizer);
  const std::size_t count = count_params(optimizer);
  std::vector<std::pair<double, double>> betas = betas_of(optimizer);
  if (clocks_.defined() && device() == to && first == first_ && count == count_)
    return betas_.swap(betas);
  const NoCapturePool lasting;
  const Tensor clocks = record_tensor<ParamClock>(static_cast<std::int64_t>(count), to),
               rates = empty_tensor({static_cast<std::int64_t>(first.size())}, DType::f64, to);
  clocks_ = clocks;
  rates_ = rates;
  sent_rates_.clear();
  first_ = std::move(first);
  count_ = count;
  betas_ = std::move(betas);
}

void DeviceCounters::send(const Optimizer& optimizer) {
  std::vector<ParamClock> clocks;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group) {
    const auto [beta1, beta2] = optimizer.corrected_betas(group);
    for (const Slot& slot : optimizer.slots(group))
      clocks.emplace_back(ParamClock{.beta1 = beta1, .beta2 = beta2, .steps = slot.steps})
          .prepare();
  }
  upload(clocks_, clocks.data(), clocks.size() * sizeof(ParamClock));
}

void DeviceCounters::send_rates(const Optimizer& optimizer) {
  std::vector<double> rates;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    rates.push_back(optimizer.lr(group));
  if (rates == sent_rates_) return;
  upload(rates_, rates.data(), rates.size() * sizeof(double));
  sent_rates_ = std::move(rates);
}

void DeviceCounters::receive(Optimizer& optimizer) const {
  std::vector<ParamClock> clocks(count_);
  download(clocks_, clocks.data(), clocks.size() * sizeof(ParamClock));
  std::size_t i = 0;
  for (std::size_t group = 0; group < first_.size(); ++group)
    for (Slot& slot : optimizer.slots(group))
      if (i < count_) slot.steps = clocks[i++].steps;
}

DeviceTime DeviceCounters::time_of(std::size_t group, std::size_t index) const {
  return {rates_.data<double>() + group,
          static_cast<const ParamClock*>(clocks_.raw_data()) + first_[group] + index};
}

std::vector<ClockCall> DeviceCounters::count_of(std::span<const ParamUpdate> updates) const {
  std::vector<ClockCall> calls(std::max<std::size_t>(1, (count_ + kMost - 1) / kMost));
  for (std::size_t i = 0; i < calls.size(); ++i) {
    calls[i].clocks = static_cast<ParamClock*>(clocks_.raw_data()) + i * kMost;
    calls[i].count = static_cast<std::int32_t>(std::min(count_ - i * kMost, kMost));
  }
  for (const ParamUpdate& u : updates) {
    const std::size_t i = first_[u.group] + u.index;
    calls[i / kMost].taking_part[i % kMost / 64] |= std::uint64_t{1} << (i % 64);
  }
  return calls;
}

}  // namespace mezzo::optim
