#include "cyclic_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "../../tensor/core/error.h"
#include "../../tensor/text/text.h"

namespace mezzo::optim {

namespace {

/** Checks the fields of a schedule. All functions throw ValueError naming schedule and field. */
class FieldChecks {
 public:
  explicit FieldChecks(std::string_view schedule) : schedule_(schedule) {}

  template <class T>
  void require(bool holds, std::string_view field, T got, std::string_view expected) const {
    if (!holds)
      fail<ValueError>(schedule_, {.what = str(field, " is out of range"),
                                   .got = str(got),
                                   .expected = std::string(expected)});
  }
  void positive(std::string_view field, double got) const {
    require(got > 0 && std::isfinite(got), field, got, "a finite number > 0");
  }
  void not_negative(std::string_view field, double got) const {
    require(got >= 0 && std::isfinite(got), field, got, "a finite number >= 0");
  }
  void at_least(std::int64_t least, std::string_view field, std::int64_t got) const {
    require(got >= least, field, got, str("a number >= ", least));
  }
  void momenta(double base, double max) const {
    require(base >= 0 && base < 1, "base_momentum", base, "a number in [0, 1)");
    require(max >= 0 && max < 1, "max_momentum", max, "a number in [0, 1)");
  }

 private:
  std::string_view schedule_;
};

/** Returns the value at a part of the way, in [0, 1]. */
double annealed(Annealing how, double from, double to, double part) {
  if (how == Annealing::linear) return from + (to - from) * part;
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * part));
}

}  // namespace

void CosineAnnealingWarmRestarts::check() const {
  const FieldChecks check("CosineAnnealingWarmRestarts");
  check.at_least(1, "t_0", t_0);
  check.at_least(1, "t_mult", t_mult);
  check.not_negative("eta_min", eta_min);
}

double CosineAnnealingWarmRestarts::operator()(std::int64_t step, double base) const {
  std::int64_t length = t_0;
  if (t_mult == 1) step %= length;
  while (step >= length) {
    step -= length;
    if (length > INT64_MAX / t_mult) break;  // longer than any training
    length *= t_mult;
  }
  const double part = static_cast<double>(step) / static_cast<double>(length);
  return annealed(Annealing::cos, base, eta_min, part);
}

// ---- one cycle ----------------------------------------------------------------------------------

void OneCycleLR::check() const {
  const FieldChecks check("OneCycleLR");
  check.positive("max_lr", max_lr);
  check.at_least(1, "total_steps", total_steps);
  check.require(pct_start >= 0 && pct_start <= 1, "pct_start", pct_start, "a number in [0, 1]");
  if (cycle_momentum) check.momenta(base_momentum, max_momentum);
  check.positive("div_factor", div_factor);
  check.positive("final_div_factor", final_div_factor);
}

namespace {

/** Returns what a value that goes through `points` has at a step. */
double along(const OneCycleLR& cycle, std::int64_t step, std::initializer_list<double> points) {
  const auto steps = static_cast<double>(cycle.total_steps);
  const double rise = cycle.pct_start * steps - 1;
  const double ends[] = {rise, cycle.three_phase ? 2 * cycle.pct_start * steps - 2 : steps - 1,
                         steps - 1};
  const double now = static_cast<double>(step);
  double start = 0;
  const std::size_t phases = points.size() - 1;
  for (std::size_t phase = 0;; ++phase) {
    if (now <= ends[phase] || phase + 1 == phases) {
      const double length = ends[phase] - start;
      const double part = length > 0 ? std::clamp((now - start) / length, 0.0, 1.0) : 1;
      return annealed(cycle.anneal_strategy, points.begin()[phase], points.begin()[phase + 1],
                      part);
    }
    start = ends[phase];
  }
}

}  // namespace

double OneCycleLR::operator()(std::int64_t step, double) const {
  const double first = max_lr / div_factor, last = first / final_div_factor;
  return three_phase ? along(*this, step, {first, max_lr, first, last})
                     : along(*this, step, {first, max_lr, last});
}

std::optional<double> OneCycleLR::momentum(std::int64_t step) const {
  if (!cycle_momentum) return std::nullopt;
  return three_phase ? along(*this, step, {max_momentum, base_momentum, max_momentum, max_momentum})
                     : along(*this, step, {max_momentum, base_momentum, max_momentum});
}

// ---- cycles -------------------------------------------------------------------------------------

void CyclicLR::check() const {
  const FieldChecks check("CyclicLR");
  check.not_negative("base_lr", base_lr);
  check.not_negative("max_lr", max_lr);
  check.at_least(1, "step_size_up", step_size_up);
  check.at_least(0, "step_size_down", step_size_down);
  check.positive("gamma", gamma);
  if (cycle_momentum) check.momenta(base_momentum, max_momentum);
}

namespace {

/** Returns how far the rate has risen at a step, 1 at the top of the first cycle. */
double height(const CyclicLR& cyclic, std::int64_t step) {
  const auto up = static_cast<double>(cyclic.step_size_up),
             down = cyclic.step_size_down > 0 ? static_cast<double>(cyclic.step_size_down) : up;
  const double cycle = std::floor(1 + static_cast<double>(step) / (up + down));
  const double part = 1 + static_cast<double>(step) / (up + down) - cycle, top = up / (up + down);
  const double risen = part <= top ? part / top : (part - 1) / (top - 1);
  switch (cyclic.mode) {
    case CyclicMode::triangular: break;
    case CyclicMode::triangular2: return risen / std::pow(2, cycle - 1);
    case CyclicMode::exp_range: return risen * std::pow(cyclic.gamma, static_cast<double>(step));
  }
  return risen;
}

}  // namespace

double CyclicLR::operator()(std::int64_t step, double) const {
  return base_lr + (max_lr - base_lr) * height(*this, step);
}

std::optional<double> CyclicLR::momentum(std::int64_t step) const {
  if (!cycle_momentum) return std::nullopt;
  return max_momentum - (max_momentum - base_momentum) * height(*this, step);
}

}  // namespace mezzo::optim
