#include "reduce_on_plateau.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../../tensor/core/error.h"
#include "../../tensor/text/text.h"

namespace mezzo::optim {

namespace {

constexpr std::string_view kName = "ReduceLROnPlateau";

template <class T>
void require(bool holds, std::string_view option, T got, std::string_view expected) {
  if (!holds)
    fail<ValueError>(kName, {.what = str(option, " is out of range"),
                             .got = str(got),
                             .expected = std::string(expected)});
}

void check(const ReduceLROnPlateauOptions& o) {
  const auto not_negative = [](std::string_view option, double got) {
    require(got >= 0 && std::isfinite(got), option, got, "a finite number >= 0");
  };
  require(o.factor >= 0 && o.factor < 1, "factor", o.factor, "a number in [0, 1)");
  require(o.patience >= 0, "patience", o.patience, "a number >= 0");
  not_negative("threshold", o.threshold);
  require(o.cooldown >= 0, "cooldown", o.cooldown, "a number >= 0");
  not_negative("min_lr", o.min_lr);
  not_negative("eps", o.eps);
}

}  // namespace

double worst_metric(PlateauMode mode) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return mode == PlateauMode::min ? kInfinity : -kInfinity;
}

ReduceLROnPlateau::ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options)
    : optimizer_(optimizer),
      options_((check(options), options)),
      state_{worst_metric(options.mode)} {}

bool ReduceLROnPlateau::improves(double metric) const {
  const bool relative = options_.threshold_mode == ThresholdMode::rel;
  const bool smaller = options_.mode == PlateauMode::min;
  const double best = state_.best, margin = options_.threshold;
  if (std::isinf(best)) return smaller ? metric < best : metric > best;
  // A relative threshold is a part of |best|.
  const double step = smaller ? -margin : margin;
  const double bound = relative ? best * (1 + (best < 0 ? -step : step)) : best + step;
  return smaller ? metric < bound : metric > bound;
}

void ReduceLROnPlateau::step(double metric) {
  if (improves(metric)) {
    state_.best = metric;
    state_.num_bad = 0;
  } else {
    ++state_.num_bad;
  }
  if (state_.cooldown > 0) {
    --state_.cooldown;
    state_.num_bad = 0;
  }
  if (state_.num_bad <= options_.patience) return;
  reduce();
  state_.cooldown = options_.cooldown;
  state_.num_bad = 0;
}

void ReduceLROnPlateau::reduce() {
  for (std::size_t group = 0; group < optimizer_.num_groups(); ++group) {
    const double lr = optimizer_.lr(group), lower = std::max(lr * options_.factor, options_.min_lr);
    if (lr - lower > options_.eps) optimizer_.set_lr(lower, group);
  }
}

StateDict ReduceLROnPlateau::state_dict() const {
  StateDict out;
  // A checkpoint holds finite numbers only.
  const bool infinite = std::isinf(state_.best);
  out.numbers["best"] = infinite ? 0 : state_.best;
  out.numbers["best_infinity"] = infinite ? std::copysign(1.0, state_.best) : 0;
  out.numbers["num_bad_epochs"] = static_cast<double>(state_.num_bad);
  out.numbers["cooldown_counter"] = static_cast<double>(state_.cooldown);
  return out;
}

std::function<void()> ReduceLROnPlateau::stage(const StateDict& saved) {
  constexpr std::string_view kOp = "ReduceLROnPlateau.load_state_dict";
  const auto number = [&](const std::string& key) {
    const auto found = saved.numbers.find(key);
    if (found == saved.numbers.end())
      fail<ValueError>(kOp, {.what = "an entry is missing", .expected = key});
    if (!std::isfinite(found->second))
      fail<ValueError>(kOp, {.what = str(key, " must be finite"), .got = str(found->second)});
    return found->second;
  };
  const auto count = [&](const std::string& key) {
    const double value = number(key);
    if (!(value >= 0 && value <= 0x1p53 && value == std::floor(value)))
      fail<ValueError>(kOp, {.what = str(key, " must be a whole number"), .got = str(value)});
    return static_cast<std::int64_t>(value);
  };
  State next{number("best"), count("num_bad_epochs"), count("cooldown_counter")};
  if (const double sign = number("best_infinity"); sign != 0)
    next.best = std::copysign(std::numeric_limits<double>::infinity(), sign);
  if (saved.numbers.size() != 4 || !saved.tensors.empty())
    fail<ValueError>(kOp, {.what = "there are entries that do not belong to it",
                           .got = str(saved.numbers.size() + saved.tensors.size(), " entries")});
  return [this, next] { state_ = next; };
}

}  // namespace mezzo::optim
