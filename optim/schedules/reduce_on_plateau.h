// ReduceLROnPlateau: lowers the learning rate when a metric no longer improves.
#pragma once

#include <cstdint>
#include <vector>

#include "schedule.h"

namespace mezzo::optim {

/** Which metrics are better. */
enum class PlateauMode : std::uint8_t { min, max };
/** Returns the metric that every other number improves on: infinity, or -infinity for max. */
MZ_API double worst_metric(PlateauMode mode);
/** What a threshold is measured by. */
enum class ThresholdMode : std::uint8_t {
  rel,  // the size of the best metric
  abs,  // nothing: it is a difference
};

/** Options of ReduceLROnPlateau. */
struct ReduceLROnPlateauOptions {
  PlateauMode mode = PlateauMode::min;                // min: smaller metrics are better
  double factor = 0.1;                                // of the rate, below 1
  std::int64_t patience = 10;                         // bad metrics in a row that change nothing
  double threshold = 1e-4;                            // an improvement is larger than this
  ThresholdMode threshold_mode = ThresholdMode::rel;  // what the threshold is a part of
  std::int64_t cooldown = 0;  // metrics after a reduction that do not count as bad
  double min_lr = 0;          // lowest rate
  double eps = 1e-8;          // smaller changes of the rate are left out
};

/** Lowers the learning rates of an optimizer when a metric has not improved for a while. Call
 * step() after each evaluation. In a captured step the rate is read from device memory: call step()
 *  between replays. The optimizer must outlive it. Unlike PyTorch, a metric that stays the same is
 * no improvement if it is negative, either. Source: torch.optim.lr_scheduler.ReduceLROnPlateau
 *  (options, defaults, and what else counts as an improvement). */
class MZ_API ReduceLROnPlateau final : public SchedulerBase {
 public:
  /** Errors: ValueError for an option out of range. */
  explicit ReduceLROnPlateau(Optimizer& optimizer, const ReduceLROnPlateauOptions& options = {});

  /** Takes a metric, such as the loss of an evaluation. A NaN is not an improvement. */
  void step(double metric);
  /** Returns the best metric so far; infinity, or -infinity for PlateauMode::max, before any. */
  double best() const { return state_.best; }
  /** Returns the number of metrics in a row that were not better. */
  std::int64_t num_bad_epochs() const { return state_.num_bad; }

  /** Returns the best metric and the counters. Learning rates are in the optimizer's state. */
  StateDict state_dict() const override;
  /** Checks and prepares a load. Errors: ValueError if an entry is missing, unexpected or out of
   *  range. */
  std::function<void()> stage(const StateDict& saved) override;

 private:
  struct State {
    double best;
    std::int64_t num_bad = 0, cooldown = 0;
  };
  bool improves(double metric) const;
  void reduce();

  Optimizer& optimizer_;
  ReduceLROnPlateauOptions options_;
  State state_;
};

}  // namespace mezzo::optim
