#include "schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "../../tensor/core/error.h"
#include "../../tensor/text/text.h"

namespace mezzo::optim {

namespace {

void require_option(bool holds, std::string_view schedule, std::string_view what,
                    const std::string& got) {
  if (!holds) fail<ValueError>(schedule, {.what = std::string(what), .got = got});
}

double straight_line(double from, double to, std::int64_t step, std::int64_t steps) {
  if (step >= steps) return to;
  return from + (to - from) * (static_cast<double>(step) / static_cast<double>(steps));
}

/** Sets the option that is a group's momentum. Returns false if there is none. */
bool set_momentum(Optimizer& optimizer, std::size_t group, std::optional<double> momentum) {
  bool found = false;
  optimizer.change_options(group, [&](std::string_view option, double value) {
    if (option != "momentum" && option != "beta1") return value;
    found = true;
    return momentum.value_or(value);
  });
  return found;
}

}  // namespace

void StepLR::check() const {
  require_option(step_size >= 1, "StepLR", "step_size must be positive", str(step_size));
  require_option(gamma >= 0 && std::isfinite(gamma), "StepLR",
                 "gamma must be finite and not negative", str(gamma));
}

double StepLR::operator()(std::int64_t step, double base) const {
  return base * std::pow(gamma, static_cast<double>(step / step_size));
}

void MultiStepLR::check() const {
  require_option(!milestones.empty() && milestones[0] >= 0 &&
                     std::is_sorted(milestones.begin(), milestones.end()),
                 "MultiStepLR", "milestones must be given, non-negative and non-decreasing",
                 milestones.empty() ? "none" : "other ones");
  require_option(gamma >= 0 && std::isfinite(gamma), "MultiStepLR",
                 "gamma must be finite and not negative", str(gamma));
}

double MultiStepLR::operator()(std::int64_t step, double base) const {
  const auto passed = std::upper_bound(milestones.begin(), milestones.end(), step);
  return base * std::pow(gamma, static_cast<double>(passed - milestones.begin()));
}

void ExponentialLR::check() const {
  require_option(gamma >= 0 && std::isfinite(gamma), "ExponentialLR",
                 "gamma must be given, finite and not negative", str(gamma));
}

double ExponentialLR::operator()(std::int64_t step, double base) const {
  return base * std::pow(gamma, static_cast<double>(step));
}

void PolynomialLR::check() const {
  require_option(total_iters >= 1, "PolynomialLR", "total_iters must be positive",
                 str(total_iters));
  require_option(power >= 0 && std::isfinite(power), "PolynomialLR",
                 "power must be finite and not negative", str(power));
}

double PolynomialLR::operator()(std::int64_t step, double base) const {
  return step >= total_iters ? 0 : base * std::pow(straight_line(1, 0, step, total_iters), power);
}

void CosineAnnealingLR::check() const {
  require_option(t_max >= 1, "CosineAnnealingLR", "t_max must be positive", str(t_max));
  require_option(eta_min >= 0 && std::isfinite(eta_min), "CosineAnnealingLR",
                 "eta_min must be finite and not negative", str(eta_min));
}

double CosineAnnealingLR::operator()(std::int64_t step, double base) const {
  const double part = static_cast<double>(step) / static_cast<double>(t_max);
  return eta_min + (base - eta_min) * (1 + std::cos(std::numbers::pi * part)) / 2;
}

void LambdaLR::check() const {
  require_option(static_cast<bool>(factor), "LambdaLR", "factor must not be empty",
                 "an empty function");
}

double LambdaLR::operator()(std::int64_t step, double base) const { return base * factor(step); }

void LinearLR::check() const {
  require_option(start_factor > 0 && start_factor <= 1, "LinearLR",
                 "start_factor must be in (0, 1]", str(start_factor));
  require_option(end_factor >= 0 && end_factor <= 1, "LinearLR", "end_factor must be in [0, 1]",
                 str(end_factor));
  require_option(total_iters >= 1, "LinearLR", "total_iters must be positive", str(total_iters));
}

double LinearLR::operator()(std::int64_t step, double base) const {
  return base * straight_line(start_factor, end_factor, step, total_iters);
}

void LinearWarmup::check() const {
  require_option(steps >= 0, "LinearWarmup", "steps must not be negative", str(steps));
  require_option(start_factor >= 0 && start_factor <= 1, "LinearWarmup",
                 "start_factor must be in [0, 1]", str(start_factor));
}

double LinearWarmup::operator()(std::int64_t step, double base) const {
  if (step < steps) return base * straight_line(start_factor, 1, step + 1, steps);
  return then ? then(step - steps, base) : base;
}

std::optional<double> LinearWarmup::momentum(std::int64_t step) const {
  return then ? then.momentum(std::max<std::int64_t>(0, step - steps)) : std::nullopt;
}

void SequentialLR::check() const {
  require_option(!schedules.empty() && schedules.size() == milestones.size() + 1, "SequentialLR",
                 "the number of schedules must be one more than the number of milestones",
                 str(schedules.size(), " schedules and ", milestones.size(), " milestones"));
  require_option(std::is_sorted(milestones.begin(), milestones.end()) &&
                     (milestones.empty() || milestones[0] >= 0),
                 "SequentialLR", "milestones must be non-negative and non-decreasing",
                 "other ones");
  for (const LrSchedule& schedule : schedules)
    require_option(static_cast<bool>(schedule), "SequentialLR", "a schedule must not be empty",
                   "an empty function");
}

/** Returns the schedule of a step, and the step counted from that schedule's first one. */
std::pair<const LrSchedule&, std::int64_t> SequentialLR::at(std::int64_t step) const {
  const auto reached = std::upper_bound(milestones.begin(), milestones.end(), step);
  const auto index = static_cast<std::size_t>(reached - milestones.begin());
  return {schedules[index], step - (index > 0 ? milestones[index - 1] : 0)};
}

double SequentialLR::operator()(std::int64_t step, double base) const {
  const auto [schedule, own_step] = at(step);
  return schedule(own_step, base);
}

std::optional<double> SequentialLR::momentum(std::int64_t step) const {
  const auto [schedule, own_step] = at(step);
  return schedule.momentum(own_step);
}

// ---- the scheduler ------------------------------------------------------------------------------

Scheduler::Scheduler(Optimizer& optimizer, LrSchedule schedule)
    : optimizer_(optimizer), schedule_(std::move(schedule)) {
  require_option(static_cast<bool>(schedule_), "Scheduler", "the schedule must not be empty",
                 "an empty function");
  State start;
  for (std::size_t group = 0; group < optimizer.num_groups(); ++group) {
    start.base.push_back(optimizer.lr(group));
    if (schedule_.momentum(0) && !set_momentum(optimizer, group, std::nullopt))
      fail<ValueError>("Scheduler", {.what = "the optimizer has no momentum that could change",
                                     .got = std::string(optimizer.type_name()),
                                     .hint = "pass .cycle_momentum = false"});
  }
  go_to(std::move(start));
}

std::vector<double> Scheduler::rates_at(const State& state) const {
  std::vector<double> rates;
  for (const double base : state.base) {
    rates.push_back(schedule_(state.step, base));
    require_option(std::isfinite(rates.back()) && rates.back() >= 0, "Scheduler",
                   str("the rate of step ", state.step, " must be finite and not negative"),
                   str(rates.back()));
  }
  return rates;
}

void Scheduler::go_to(State state) { staged(std::move(state))(); }

std::function<void()> Scheduler::staged(State state) {
  std::vector<double> rates = rates_at(state);
  const std::optional<double> momentum = schedule_.momentum(state.step);
  return [this, rates = std::move(rates), momentum, next = std::move(state)]() mutable {
    for (std::size_t group = 0; group < rates.size(); ++group) {
      optimizer_.set_lr(rates[group], group);
      if (momentum) set_momentum(optimizer_, group, momentum);
    }
    state_ = std::move(next);
  };
}

void Scheduler::step() {
  State next = state_;
  for (std::size_t group = next.base.size(); group < optimizer_.num_groups(); ++group)
    next.base.push_back(optimizer_.lr(group));
  ++next.step;
  go_to(std::move(next));
}

std::vector<double> Scheduler::last_lr() const {
  std::vector<double> rates;
  for (std::size_t group = 0; group < state_.base.size(); ++group)
    rates.push_back(optimizer_.lr(group));
  return rates;
}

StateDict Scheduler::state_dict() const {
  StateDict out;
  out.numbers["step"] = static_cast<double>(state_.step);
  for (std::size_t group = 0; group < state_.base.size(); ++group)
    out.numbers[str("base_lr.", group)] = state_.base[group];
  return out;
}

Scheduler::State Scheduler::checked(const StateDict& saved) const {
  constexpr std::string_view op = "Scheduler.load_state_dict";
  const auto number = [&](const std::string& key) {
    const auto found = saved.numbers.find(key);
    if (found == saved.numbers.end())
      fail<ValueError>(op, {.what = "an entry is missing", .expected = key});
    require_option(std::isfinite(found->second) && found->second >= 0, op,
                   key + " must be finite and not negative", str(found->second));
    return found->second;
  };
  const double step = number("step");
  require_option(step == std::floor(step) && step <= 0x1p53, op, "step must be a whole number",
                 str(step));
  State state{.step = static_cast<std::int64_t>(step)};
  // A group added after the last step has no entry.
  const std::size_t groups =
      std::max<std::size_t>(1, std::min(optimizer_.num_groups(), saved.numbers.size() - 1));
  for (std::size_t group = 0; group < groups; ++group)
    state.base.push_back(number(str("base_lr.", group)));
  require_option(saved.numbers.size() == groups + 1 && saved.tensors.empty(), op,
                 "there are entries for more groups than the optimizer has",
                 str(saved.numbers.size() + saved.tensors.size(), " entries"));
  (void)rates_at(state);
  return state;
}

std::function<void()> Scheduler::stage(const StateDict& saved) { return staged(checked(saved)); }

}  // namespace mezzo::optim
