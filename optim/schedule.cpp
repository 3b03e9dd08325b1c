#include "schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "../tensor/error.h"
#include "../tensor/text.h"

namespace mezzo::optim {

namespace {

void require(bool holds, std::string_view schedule, std::string_view what, const std::string& got) {
  if (!holds) fail<ValueError>(schedule, {.what = std::string(what), .got = got});
}

double straight_line(double from, double to, std::int64_t step, std::int64_t steps) {
  if (step >= steps) return to;
  return from + (to - from) * (static_cast<double>(step) / static_cast<double>(steps));
}

}  // namespace

void StepLR::check() const {
  require(step_size >= 1, "StepLR", "step_size must be positive", str(step_size));
  require(gamma >= 0 && std::isfinite(gamma), "StepLR", "gamma must be finite and not negative", str(gamma));
}

double StepLR::operator()(std::int64_t step, double base) const {
  return base * std::pow(gamma, static_cast<double>(step / step_size));
}

void CosineAnnealingLR::check() const {
  require(t_max >= 1, "CosineAnnealingLR", "t_max must be positive", str(t_max));
  require(eta_min >= 0 && std::isfinite(eta_min), "CosineAnnealingLR",
          "eta_min must be finite and not negative", str(eta_min));
}

double CosineAnnealingLR::operator()(std::int64_t step, double base) const {
  const double part = static_cast<double>(step) / static_cast<double>(t_max);
  return eta_min + (base - eta_min) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

void LambdaLR::check() const {
  require(static_cast<bool>(factor), "LambdaLR", "there is no function", "an empty one");
}

double LambdaLR::operator()(std::int64_t step, double base) const { return base * factor(step); }

void LinearLR::check() const {
  require(start_factor > 0 && start_factor <= 1, "LinearLR", "start_factor must be in (0, 1]",
          str(start_factor));
  require(end_factor >= 0 && end_factor <= 1, "LinearLR", "end_factor must be in [0, 1]", str(end_factor));
  require(total_iters >= 1, "LinearLR", "total_iters must be positive", str(total_iters));
}

double LinearLR::operator()(std::int64_t step, double base) const {
  return base * straight_line(start_factor, end_factor, step, total_iters);
}

void LinearWarmup::check() const {
  require(steps >= 0, "LinearWarmup", "steps must not be negative", str(steps));
  require(start_factor >= 0 && start_factor <= 1, "LinearWarmup", "start_factor must be in [0, 1]",
          str(start_factor));
}

double LinearWarmup::operator()(std::int64_t step, double base) const {
  if (step < steps) return base * straight_line(start_factor, 1, step + 1, steps);
  return then ? then(step - steps, base) : base;
}

void SequentialLR::check() const {
  require(!schedules.empty() && schedules.size() == milestones.size() + 1, "SequentialLR",
          "one milestone lies between two schedules",
          str(schedules.size(), " schedules and ", milestones.size(), " milestones"));
  require(std::is_sorted(milestones.begin(), milestones.end()) && (milestones.empty() || milestones[0] >= 0),
          "SequentialLR", "milestones must not be negative and not fall", "other ones");
  for (const LrSchedule& schedule : schedules)
    require(static_cast<bool>(schedule), "SequentialLR", "a schedule is missing", "an empty function");
}

double SequentialLR::operator()(std::int64_t step, double base) const {
  const auto reached = std::upper_bound(milestones.begin(), milestones.end(), step);
  const auto index = static_cast<std::size_t>(reached - milestones.begin());
  return schedules[index](step - (index > 0 ? milestones[index - 1] : 0), base);
}

// ---- the scheduler --------------------------------------------------------------------------------------------------------

Scheduler::Scheduler(Optimizer& optimizer, LrSchedule schedule)
    : optimizer_(optimizer), schedule_(std::move(schedule)) {
  require(static_cast<bool>(schedule_), "Scheduler", "there is no schedule", "an empty function");
  Place start;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group)
    start.base.push_back(optimizer.lr(group));
  go_to(std::move(start));
}

std::vector<double> Scheduler::rates_at(const Place& place) const {
  std::vector<double> rates;
  for (const double base : place.base) {
    rates.push_back(schedule_(place.step, base));
    require(std::isfinite(rates.back()) && rates.back() >= 0, "Scheduler",
            str("the rate of step ", place.step, " must be finite and not negative"), str(rates.back()));
  }
  return rates;
}

void Scheduler::go_to(Place place) { staged(std::move(place))(); }

std::function<void()> Scheduler::staged(Place place) {
  return [this, rates = rates_at(place), place = std::move(place)]() mutable {
    for (std::size_t group = 0; group < rates.size(); ++group) optimizer_.set_lr(rates[group], group);
    place_ = std::move(place);
  };
}

void Scheduler::step() {
  Place next = place_;
  for (std::size_t group = next.base.size(); group < optimizer_.num_groups(); ++group)
    next.base.push_back(optimizer_.lr(group));
  ++next.step;
  go_to(std::move(next));
}

std::vector<double> Scheduler::last_lr() const {
  std::vector<double> rates;
  for (std::size_t group = 0; group < place_.base.size(); ++group) rates.push_back(optimizer_.lr(group));
  return rates;
}

StateDict Scheduler::state_dict() const {
  StateDict out;
  out.scalars["step"] = static_cast<double>(place_.step);
  for (std::size_t group = 0; group < place_.base.size(); ++group)
    out.scalars[str("base_lr.", group)] = place_.base[group];
  return out;
}

Scheduler::Place Scheduler::checked(const StateDict& saved) const {
  constexpr std::string_view op = "Scheduler.load_state_dict";
  const auto number = [&](const std::string& key) {
    const auto found = saved.scalars.find(key);
    if (found == saved.scalars.end()) fail<ValueError>(op, {.what = "an entry is missing", .expected = key});
    require(std::isfinite(found->second) && found->second >= 0, op, key + " must be finite and not negative",
            str(found->second));
    return found->second;
  };
  const double step = number("step");
  require(step == std::floor(step) && step <= 0x1p53, op, "step must be a whole number", str(step));
  Place place{.step = static_cast<std::int64_t>(step)};
  // A group that was added since the last step has no entry yet.
  const std::size_t groups =
      std::max<std::size_t>(1, std::min(optimizer_.num_groups(), saved.scalars.size() - 1));
  for (std::size_t group = 0; group < groups; ++group) place.base.push_back(number(str("base_lr.", group)));
  require(saved.scalars.size() == groups + 1 && saved.tensors.empty(), op,
          "there are entries for more groups than the optimizer has",
          str(saved.scalars.size() + saved.tensors.size(), " entries"));
  (void)rates_at(place);
  return place;
}

void Scheduler::check_state_dict(const StateDict& saved) const { (void)checked(saved); }
void Scheduler::load_state_dict(const StateDict& saved) { go_to(checked(saved)); }
std::function<void()> Scheduler::stage_state_dict(const StateDict& saved) { return staged(checked(saved)); }

}  // namespace mezzo::optim
