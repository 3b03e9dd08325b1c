#include "early_stopping.h"

#include <cmath>
#include <limits>

#include "../../tensor/core/error.h"
#include "../../tensor/text/text.h"

namespace mezzo::optim {

EarlyStopping::EarlyStopping(const EarlyStoppingOptions& options)
    : options_(options), best_(worst_metric(options.mode)) {
  if (options.patience < 1)
    fail<ValueError>("EarlyStopping", {.what = "patience is out of range",
                                       .got = str(options.patience),
                                       .expected = "at least 1"});
  if (!(options.min_delta >= 0) || !std::isfinite(options.min_delta))
    fail<ValueError>("EarlyStopping", {.what = "min_delta is out of range",
                                       .got = str(options.min_delta),
                                       .expected = "a finite number >= 0"});
}

bool EarlyStopping::step(double metric) {
  ++evaluations_;
  saw_nan_ = saw_nan_ || std::isnan(metric);
  const bool better = options_.mode == PlateauMode::min ? metric < best_ - options_.min_delta
                                                        : metric > best_ + options_.min_delta;
  if (!better) {
    ++wait_count_;
    return false;
  }
  best_ = metric;
  best_evaluation_ = evaluations_;
  wait_count_ = 0;
  return true;
}

std::string EarlyStopping::reason() const {
  if (!should_stop()) return {};
  const std::string best =
      best_evaluation_ == 0 ? "there was no best one"
                            : str("the best was ", best_, " (evaluation ", best_evaluation_, ")");
  return saw_nan_ ? "the metric is NaN; " + best
                  : str("no improvement in ", wait_count_, " evaluations; ", best);
}

StateDict EarlyStopping::state_dict() const {
  StateDict out;
  // A checkpoint holds finite numbers only.
  const bool infinite = std::isinf(best_);
  out.numbers["best"] = infinite ? 0 : best_;
  out.numbers["best_infinity"] = infinite ? std::copysign(1.0, best_) : 0;
  out.numbers["wait_count"] = static_cast<double>(wait_count_);
  out.numbers["evaluations"] = static_cast<double>(evaluations_);
  out.numbers["best_evaluation"] = static_cast<double>(best_evaluation_);
  out.numbers["saw_nan"] = saw_nan_ ? 1 : 0;
  return out;
}

std::function<void()> EarlyStopping::stage(const StateDict& saved) {
  constexpr std::string_view kOp = "EarlyStopping.load_state_dict";
  const auto number = [&](const std::string& key, bool whole) {
    const auto found = saved.numbers.find(key);
    if (found == saved.numbers.end())
      fail<ValueError>(kOp, {.what = "an entry is missing", .expected = key});
    const double value = found->second;
    if (!std::isfinite(value) ||
        (whole && !(value >= 0 && value <= 0x1p53 && value == std::floor(value))))
      fail<ValueError>(kOp, {.what = str(key, " must be a ", whole ? "whole" : "finite", " number"),
                             .got = str(value)});
    return value;
  };
  const auto count = [&](const std::string& key) {
    return static_cast<std::int64_t>(number(key, true));
  };
  double best = number("best", false);
  if (const double sign = number("best_infinity", false); sign != 0)
    best = std::copysign(std::numeric_limits<double>::infinity(), sign);
  const std::int64_t wait = count("wait_count"), evaluations = count("evaluations"),
                     best_evaluation = count("best_evaluation");
  const bool saw_nan = number("saw_nan", true) != 0;
  if (saved.numbers.size() != 6 || !saved.tensors.empty())
    fail<ValueError>(kOp, {.what = "there are entries that do not belong to it",
                           .got = str(saved.numbers.size() + saved.tensors.size(), " entries")});
  return [=, this] {
    best_ = best;
    wait_count_ = wait;
    evaluations_ = evaluations;
    best_evaluation_ = best_evaluation;
    saw_nan_ = saw_nan;
  };
}

}  // namespace mezzo::optim
