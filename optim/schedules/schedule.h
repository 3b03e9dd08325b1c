// Learning-rate schedules, which are formulas from a step number to a learning rate, and Scheduler,
// which applies one to an optimizer.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "../optimizer.h"

namespace mezzo::optim {

/** Any of the schedules below or in cyclic_schedule.h, or a function with the same signature:
 *  returns the learning rate after `step` calls of Scheduler::step(), from the initial rate `base`
 *  of the group. A schedule may have a member momentum(step), which returns the momentum of a step
 *  or nothing. The conversion to LrSchedule checks a schedule's fields. */
class MZ_API LrSchedule {
 public:
  LrSchedule() = default;
  /** Takes a schedule or a function, and calls its check() if it has one, which may throw. */
  template <class F>
  requires(!std::is_same_v<F, LrSchedule> && std::is_invocable_r_v<double, F, std::int64_t, double>)
  LrSchedule(F formula)  // NOLINT: conversion is the point
      : momentum_(momentum_of(formula)), formula_((check(formula), std::move(formula))) {}

  /** Returns the learning rate at a step. */
  double operator()(std::int64_t step, double base) const { return formula_(step, base); }
  /** Returns the momentum at a step; nothing if the schedule leaves it alone. */
  std::optional<double> momentum(std::int64_t step) const {
    return momentum_ ? momentum_(step) : std::nullopt;
  }
  /** True if it holds a schedule. */
  explicit operator bool() const { return static_cast<bool>(formula_); }

 private:
  template <class F> static void check(const F& formula) {
    if constexpr (requires { formula.check(); }) formula.check();
  }

  using Momentum = std::function<std::optional<double>(std::int64_t)>;
  template <class F> static Momentum momentum_of(const F& formula) {
    if constexpr (requires { formula.momentum(std::int64_t{}); })
      return [formula](std::int64_t step) { return formula.momentum(step); };
    else
      return {};
  }

  Momentum momentum_;
  std::function<double(std::int64_t, double)> formula_;
};

/** base * gamma^(step / step_size), with integer division. Errors of this and the other schedules:
 *  ValueError. */
struct MZ_API StepLR {
  std::int64_t step_size = 1;  // steps between two decays
  double gamma = 0.1;          // factor of one decay
  /** Throws ValueError unless step_size >= 1 and gamma is finite and >= 0. */
  void check() const;
  /** Returns the learning rate at a step, from the initial rate `base`. */
  double operator()(std::int64_t step, double base) const;
};

/** base * gamma^(number of milestones up to the step). */
struct MZ_API MultiStepLR {
  std::vector<std::int64_t> milestones = {};  // steps at which the rate decays
  double gamma = 0.1;                         // factor of one decay
  /** Throws ValueError unless milestones are given, are not negative and do not decrease, and gamma
   *  is finite and >= 0. */
  void check() const;
  /** Returns the learning rate at a step, from the initial rate `base`. */
  double operator()(std::int64_t step, double base) const;
};

/** base * gamma^step. */
struct MZ_API ExponentialLR {
  double gamma = -1;  // factor of one step; required
  /** Throws ValueError unless gamma is finite and >= 0. */
  void check() const;
  /** Returns the learning rate at a step, from the initial rate `base`. */
  double operator()(std::int64_t step, double base) const;
};

/** base * (1 - step / total_iters)^power, and 0 from step total_iters on. */
struct MZ_API PolynomialLR {
  std::int64_t total_iters = 5;  // steps until 0
  double power = 1;              // 1: a straight line
  /** Throws ValueError unless total_iters >= 1 and power is finite and >= 0. */
  void check() const;
  /** Returns the learning rate at a step, from the initial rate `base`. */
  double operator()(std::int64_t step, double base) const;
};

/** Half a cosine wave from base at step 0 to eta_min at step t_max, and back up beyond it.
 *  Source: Loshchilov, Hutter, SGDR: stochastic gradient descent with warm restarts, 2017. */
struct MZ_API CosineAnnealingLR {
  std::int64_t t_max = 1;  // steps of half a wave
  double eta_min = 0;      // lowest rate
  /** Throws ValueError unless t_max >= 1 and eta_min is finite and >= 0. */
  void check() const;
  /** Returns the learning rate at a step, from the initial rate `base`. */
  double operator()(std::int64_t step, double base) const;
};

/** base * factor(step). */
struct MZ_API LambdaLR {
  std::function<double(std::int64_t step)> factor;  // factor of the initial rate
  /** Throws ValueError if factor is empty. */
  void check() const;
  /** Returns the learning rate at a step, from the initial rate `base`. */
  double operator()(std::int64_t step, double base) const;
};

/** base times a factor that changes linearly from start_factor at step 0 to end_factor at step
 *  total_iters and then stays constant. */
struct MZ_API LinearLR {
  /** Factor at step 0, in (0, 1]. */
  double start_factor = 1.0 / 3;
  double end_factor = 1;         // factor from step total_iters on, in [0, 1]
  std::int64_t total_iters = 5;  // steps until end_factor
  /** Throws ValueError for a factor out of range or total_iters below 1. */
  void check() const;
  /** Returns the learning rate at a step, from the initial rate `base`. */
  double operator()(std::int64_t step, double base) const;
};

/** Rises linearly during the first `steps` steps, from start_factor + (1 - start_factor) / steps at
 *  step 0 to the full rate at step steps - 1. Continues with `then`, counted from 0, or with the
 *  constant full rate. */
struct MZ_API LinearWarmup {
  std::int64_t steps = 0;   // steps of the warm-up
  double start_factor = 0;  // in [0, 1]
  LrSchedule then = {};     // empty: constant
  /** Throws ValueError for negative steps or a start_factor out of range. */
  void check() const;
  /** Returns the learning rate at a step, from the initial rate `base`. */
  double operator()(std::int64_t step, double base) const;
  /** Returns the momentum of `then`, during the warm-up that of its first step. */
  std::optional<double> momentum(std::int64_t step) const;
};

/** Schedules in sequence: schedule k + 1 starts, counted from 0, at step milestones[k]. */
struct MZ_API SequentialLR {
  std::vector<LrSchedule> schedules;     // one more than milestones
  std::vector<std::int64_t> milestones;  // non-decreasing
  /** Throws ValueError for an empty schedule, a wrong number of them, or milestones that
   *  are negative or decrease. */
  void check() const;
  /** Returns the learning rate at a step, from the initial rate `base`. */
  double operator()(std::int64_t step, double base) const;
  /** Returns the momentum of the schedule that a step belongs to. */
  std::optional<double> momentum(std::int64_t step) const;

 private:
  std::pair<const LrSchedule&, std::int64_t> at(std::int64_t step) const;
};

/** What changes the learning rates of an optimizer and can be saved: a Scheduler or a
 *  ReduceLROnPlateau. */
class MZ_API SchedulerBase {
 public:
  virtual ~SchedulerBase() = default;
  /** Returns the numbers that a resumed training needs. */
  virtual StateDict state_dict() const = 0;
  /** Checks and prepares a load. The returned function performs it and does not allocate. Errors:
   *  ValueError if an entry is missing, unexpected or out of range. */
  virtual std::function<void()> stage(const StateDict& saved) = 0;
  /** Restores a saved state. Errors: as stage(); nothing has changed then. */
  void load_state_dict(const StateDict& saved) { stage(saved)(); }
  /** Throws what load_state_dict would throw, and changes nothing. */
  void check_state_dict(const StateDict& saved) { (void)stage(saved); }
};

/** Sets the learning rates of an optimizer's groups from a schedule: in the constructor for step
 *  0, then at every step(). A schedule that has momenta sets the option `momentum`, or the first of
 *  `betas`; replays of a captured step keep the momentum of the capture. Call step() once per
 * optimizer step or once per epoch, depending on what the schedule counts. The optimizer must
 * outlive it. Groups added later keep their rate until the next step(). */
class MZ_API Scheduler final : public SchedulerBase {
 public:
  /** Errors: ValueError if the schedule is empty or returns an invalid rate, or has momenta and the
   *  optimizer has none. */
  Scheduler(Optimizer& optimizer, LrSchedule schedule);

  /** Advances by one step and sets the learning rates. Errors: ValueError for an invalid rate. */
  void step();
  /** Returns the number of calls of step(). */
  std::int64_t steps() const { return state_.step; }
  /** Returns the current rates, one per group. */
  std::vector<double> last_lr() const;

  /** Returns step number and initial rates. Schedules are code and are not saved. */
  StateDict state_dict() const override;
  /** Checks and prepares a load. Errors: ValueError if an entry is missing, unexpected or an
   *  invalid rate. */
  std::function<void()> stage(const StateDict& saved) override;

 private:
  /** Step number and initial rates. */
  struct State {
    std::int64_t step = 0;
    std::vector<double> base = {};  // initial rate of each group; step() adds new groups
  };
  State checked(const StateDict& saved) const;
  std::vector<double> rates_at(const State& state) const;
  void go_to(State state);
  std::function<void()> staged(State state);

  Optimizer& optimizer_;
  LrSchedule schedule_;
  State state_;
};

}  // namespace mezzo::optim
