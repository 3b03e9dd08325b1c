// EarlyStopping: says which evaluation was the best, and when no better one is to be expected.
#pragma once

#include <cstdint>
#include <string>

#include "reduce_on_plateau.h"

namespace mezzo::optim {

/** Options of EarlyStopping. */
struct EarlyStoppingOptions {
  PlateauMode mode = PlateauMode::min;  // min: smaller metrics are better
  std::int64_t patience = 3;  // stop after so many evaluations in a row without a better one
  double min_delta = 0;       // an improvement is larger than this
};

/** Keeps the best training by a metric, and ends it when the metric no longer improves:
 *    optim::EarlyStopping stopping({.mode = optim::PlateauMode::max, .patience = 5});
 *    amp::Training training{.model = net, .optimizer = optimizer, .schedule = stopping};
 *    ... after each epoch:
 *    if (stopping.step(accuracy)) amp::save_checkpoint("best", training, {.keep = 1});
 *    if (stopping.should_stop()) break;
 *  As a part of a Training it goes on where it was after a restart. Several processes pass the same
 *  metric, as those of nn/metrics.h are. A NaN is no improvement, and ends the training at once.
 *  Source: EarlyStopping of PyTorch Lightning (options, defaults). */
class MZ_API EarlyStopping final : public SchedulerBase {
 public:
  /** Errors: ValueError unless patience > 0 and 0 <= min_delta < infinity. */
  explicit EarlyStopping(const EarlyStoppingOptions& options = {});

  /** Takes the metric of an evaluation. Returns true if it is the best so far: now save. */
  bool step(double metric);
  /** Returns true if the training has to end: `patience` evaluations were not better, or a metric
   *  was NaN. */
  bool should_stop() const { return saw_nan_ || wait_count_ >= options_.patience; }
  /** Returns why: "no improvement in 3 evaluations; the best was 0.91 (evaluation 7)", or that the
   *  metric is NaN; empty while it goes on. */
  std::string reason() const;
  /** Returns the best metric; infinity, or -infinity for PlateauMode::max, before any. */
  double best() const { return best_; }
  /** Returns the number of evaluations in a row that were not better. */
  std::int64_t wait_count() const { return wait_count_; }

  /** Returns the best metric and the counters. */
  StateDict state_dict() const override;
  /** Checks and prepares a load. Errors: ValueError if an entry is missing, unexpected or out of
   *  range. */
  std::function<void()> stage(const StateDict& saved) override;

 private:
  EarlyStoppingOptions options_;
  double best_;
  std::int64_t wait_count_ = 0, evaluations_ = 0, best_evaluation_ = 0;  // 0: none
  bool saw_nan_ = false;
};

}  // namespace mezzo::optim
