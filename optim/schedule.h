// Learning-rate schedules: each is a formula from the step number to a learning rate; the Scheduler applies one to an optimizer.
// Sees: optimizer.h.
// Read next: schedule.cpp (the formulas).
#pragma once

#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include "optimizer.h"

namespace mezzo::optim {

/** Any of the schedules below, or any function of the same signature: the learning rate after `step` calls of Scheduler::step(), given the
 *  rate that the group started with. A schedule's fields are checked when it becomes an LrSchedule. */
class MZ_API LrSchedule {
 public:
  LrSchedule() = default;
  template <class F>
  requires(!std::is_same_v<F, LrSchedule> && std::is_invocable_r_v<double, F, std::int64_t, double>)
      LrSchedule(F formula)  // NOLINT: conversion is the point
      : formula_((check(formula), std::move(formula))) {}

  double operator()(std::int64_t step, double base) const { return formula_(step, base); }
  explicit operator bool() const { return static_cast<bool>(formula_); }

 private:
  template <class F> static void check(const F& formula) {
    if constexpr (requires { formula.check(); }) formula.check();
  }

  std::function<double(std::int64_t, double)> formula_;
};

/** base * gamma^(step / step_size), the division rounded down. Errors (of this and the others): ValueError. */
struct MZ_API StepLR {
  std::int64_t step_size = 1;
  double gamma = 0.1;
  void check() const;
  double operator()(std::int64_t step, double base) const;
};

/** Half a cosine wave from base at step 0 to eta_min at step t_max, and back up beyond it.
 *  Source: Loshchilov, Hutter, SGDR: stochastic gradient descent with warm restarts, 2017. */
struct MZ_API CosineAnnealingLR {
  std::int64_t t_max = 1;
  double eta_min = 0;
  void check() const;
  double operator()(std::int64_t step, double base) const;
};

/** base * factor(step). */
struct MZ_API LambdaLR {
  std::function<double(std::int64_t step)> factor;
  void check() const;
  double operator()(std::int64_t step, double base) const;
};

/** base times a factor that goes in a straight line from start_factor at step 0 to end_factor at step total_iters and stays there. */
struct MZ_API LinearLR {
  double start_factor = 1.0 / 3;
  double end_factor = 1;
  std::int64_t total_iters = 5;
  void check() const;
  double operator()(std::int64_t step, double base) const;
};

/** Rises in a straight line during the first `steps` steps, from start_factor + (1 - start_factor) / steps at step 0 to the full rate at step
 *  steps - 1; then `then`, counted from 0, or the full rate for good. */
struct MZ_API LinearWarmup {
  std::int64_t steps = 0;
  double start_factor = 0;
  LrSchedule then = {};
  void check() const;
  double operator()(std::int64_t step, double base) const;
};

/** Schedules one after another: schedule k + 1 takes over, counted from 0, at step milestones[k]. */
struct MZ_API SequentialLR {
  std::vector<LrSchedule> schedules;
  std::vector<std::int64_t> milestones;
  void check() const;
  double operator()(std::int64_t step, double base) const;
};

/** Sets the learning rates of an optimizer's groups by a schedule: at once for step 0, then at every step(). Call step() once per optimizer
 *  step or once per epoch, whichever the schedule counts. The optimizer must outlive it; groups added later keep their rate until then. */
class MZ_API Scheduler {
 public:
  /** Errors: ValueError where the schedule is empty or yields no rate. */
  Scheduler(Optimizer& optimizer, LrSchedule schedule);

  void step();
  std::int64_t steps() const { return place_.step; }
  /** The rates it has set, one per group. */
  std::vector<double> last_lr() const;

  /** Step number and base rates; schedules themselves are code and not saved. */
  StateDict state_dict() const;
  /** Errors: ValueError where an entry is missing, unexpected or no rate; nothing has changed then. */
  void load_state_dict(const StateDict& saved);
  /** The load, checked and prepared: the function that it returns makes it and needs no memory. */
  std::function<void()> stage_state_dict(const StateDict& saved);
  /** Throws what load_state_dict would, and changes nothing. */
  void check_state_dict(const StateDict& saved) const;

 private:
  /** Where it stands. */
  struct Place {
    std::int64_t step = 0;
    std::vector<double> base =
        {};  // rate that each group started with; one added later joins at the next step
  };
  Place checked(const StateDict& saved) const;
  std::vector<double> rates_at(const Place& place) const;
  void go_to(Place place);
  std::function<void()> staged(Place place);

  Optimizer& optimizer_;
  LrSchedule schedule_;
  Place place_;
};

}  // namespace mezzo::optim
