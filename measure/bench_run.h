// bench::Run: the training of one net at one level, in turns with others.
#pragma once

#include <memory>
#include <vector>

#include "../amp/autocast/cast_stats.h"
#include "../tensor/random/generator.h"
#include "bench.h"
#include "work_count.h"

namespace mezzo::bench {

/** Returns the levels of the options: all if none is named. */
std::vector<std::string> levels_of(const Options& options);

/** The number of steps of a turn. The first one runs with caches filled by another net, which the
 *  median of the turn hides. */
inline constexpr std::int64_t kTurn = 5;

/** Swaps a run's generator with this thread's for a scope. */
class OwnGenerator {
 public:
  explicit OwnGenerator(Generator& own) : own_(own) { std::swap(own_, default_generator()); }
  ~OwnGenerator() { std::swap(own_, default_generator()); }
  OwnGenerator(const OwnGenerator&) = delete;
  OwnGenerator& operator=(const OwnGenerator&) = delete;

 private:
  Generator& own_;
};

/** Peak memory of one net, while other nets use memory of the same device. */
class OwnMemory {
 public:
  explicit OwnMemory(Device device) : device_(device) {}

  /** Calls f() and counts its allocations and deallocations. */
  template <class F> void during(F&& f) {
    reset_peak_memory(device_);
    const MemoryStats before = memory_stats(device_);
    f();
    const MemoryStats after = memory_stats(device_);
    add(stats_.total, before.total, after.total);
    for (std::size_t i = 0; i < kNumMemoryCategories; ++i)
      add(stats_.by_category[i], before.by_category[i], after.by_category[i]);
  }

  const MemoryStats& stats() const { return stats_; }

 private:
  static void add(MemoryUse& own, const MemoryUse& before, const MemoryUse& after) {
    own.peak = std::max(own.peak, own.current + after.peak - before.current);
    own.current += after.current - before.current;
    own.allocations += after.allocations - before.allocations;
  }

  Device device_;
  MemoryStats stats_;
};

/** The training of one net at one level. Its random numbers do not depend on what runs between its
 *  turns. */
class Run {
 public:
  /** Constructs the workload and trains the steps of the warm-up. */
  Run(const Net& net, const Setting& setting, const Options& options);

  /** Trains one turn. */
  void turn();
  /** Returns whether all steps of the options are done. */
  bool done() const { return steps_ >= options_.steps; }
  /** Returns the seconds of a turn, by the median time of the latest steps. */
  double turn_seconds() const { return step_seconds() * static_cast<double>(kTurn); }
  /** Returns an estimate of the seconds until done(). */
  double seconds_left() const;
  /** Returns an estimate of the seconds of all steps of the options, and those of construction. */
  double seconds_in_all() const;
  /** Returns whether the figures so far make a stable row. */
  bool stable() const;
  /** Returns memory in use and its peak. */
  const MemoryUse& memory() const { return memory_.stats().total; }
  /** Returns the median times of the turns. */
  const std::vector<double>& turns_ms() const { return turns_ms_; }
  /** Returns the figures but for those of the roof and of O0. Trains one more step, to count its
   *  work. To be called once, at the end. */
  Row finish();
  /** Returns the work of a step, after finish(). */
  const StepWork& work() const { return work_; }

 private:
  /** Trains `count` steps and returns their times. */
  std::vector<double> train(std::int64_t count);
  void step();
  double step_seconds() const;

  Options options_;
  OwnMemory memory_;
  Generator generator_;  // this thread's, while the run has its turn
  std::unique_ptr<Workload> workload_;
  Row row_;
  std::int64_t steps_ = 0;
  double construction_seconds_ = 0;
  std::vector<double> turns_ms_;
  amp::CastStats casts_;  // of the last of the steps
  StepWork work_;
};

}  // namespace mezzo::bench
