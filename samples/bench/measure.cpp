#include "measure.h"

#include <algorithm>

#include "stopwatch.h"

namespace samples {

using namespace mezzo;

double Measurement::share_of_floor() const {
  return step_ms > 0 ? 1e3 * std::max(floor.arithmetic, floor.memory) / step_ms : 0;
}

namespace {

/** Number of steps before the next level continues. The first of them runs with caches filled by
 *  another level, which the median hides. */
constexpr std::int64_t kTurn = 5;

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

/** The training of one net at one level. */
class Run {
 public:
  Run(const std::string& net, const Setting& setting) : memory_(setting.device) {
    memory_.during([&] { workload_ = make_workload(net, setting); });
    result_.net = net;
    result_.level = setting.level;
    result_.samples = workload_->samples;
  }

  /** Trains until `end` steps are done. */
  void train(std::int64_t end) {
    memory_.during([&] {
      while (result_.steps < end) step();
    });
  }

  /** Returns the figures. Runs one more step to count its work. Must be the last call. */
  Measurement finish(std::int64_t warm_up, const Roof& roof) {
    result_.memory = memory_.stats();
    result_.loss = result_.losses.empty() ? 0 : result_.losses.back();
    result_.loss_scale = workload_->loss_scale();
    result_.casts_per_step = static_cast<double>(casts_.casts);
    result_.cast_bytes_per_step = static_cast<double>(casts_.bytes);
    times_.erase(times_.begin(),
                 times_.begin() + std::min<std::ptrdiff_t>(warm_up, std::ssize(times_)));
    result_.step_ms = median(times_);
    result_.fast_ms = quantile(times_, 0.1);
    result_.slow_ms = quantile(times_, 0.9);
    result_.samples_per_s =
        result_.step_ms > 0 ? 1e3 * static_cast<double>(result_.samples) / result_.step_ms : 0;
    const OpCount count;
    workload_->step(result_.steps);
    result_.work = count.work();
    for (const optim::Optimizer* optimizer : workload_->optimizers())
      result_.work.bytes += update_bytes(*optimizer);
    result_.floor = floor_of(result_.work, roof);
    return result_;
  }

 private:
  void step() {
    const amp::CastStats before = amp::cast_stats();
    StepOutcome outcome;
    times_.push_back(1e3 * seconds([&] { outcome = workload_->step(result_.steps); }));
    casts_ = amp::cast_stats() - before;  // of the last step, because the first ones fill caches
    result_.losses.push_back(outcome.loss);
    result_.skipped_steps += outcome.skipped ? 1 : 0;
    ++result_.steps;
  }

  OwnMemory memory_;
  std::unique_ptr<Workload> workload_;
  Measurement result_;
  std::vector<double> times_;
  amp::CastStats casts_;
};

}  // namespace

Measurement measure(const std::string& net, const Setting& setting, const MeasureOptions& options,
                    const Roof& roof) {
  empty_cache(setting.device);
  Run run(net, setting);
  run.train(options.steps);
  return run.finish(options.warm_up, roof);
}

std::vector<Measurement> measure_levels(const std::string& net,
                                        const std::vector<std::string>& levels,
                                        const Setting& setting, const MeasureOptions& options,
                                        const Roof& roof, const RowSink& row) {
  empty_cache(setting.device);
  std::vector<std::unique_ptr<Run>> runs(levels.size());
  std::vector<Measurement> results(levels.size());
  for (std::size_t i = 0; i < levels.size(); ++i) {
    results[i].net = net;
    results[i].level = levels[i];
  }
  /** Reports a completed or failed level and frees its memory. */
  const auto end_level = [&](std::size_t i) {
    runs[i].reset();
    row(results[i]);
  };
  /** Calls f for each level that has not failed. */
  const auto in_turn = [&](const auto& f) {
    for (std::size_t i = 0; i < levels.size(); ++i) {
      if (!results[i].error.empty()) continue;
      try {
        f(i);
      } catch (const std::exception& e) {
        results[i].error = e.what();
        end_level(i);
      }
    }
  };
  in_turn([&](std::size_t i) {
    Setting at_level = setting;
    at_level.level = levels[i];
    runs[i] = std::make_unique<Run>(net, at_level);
  });
  for (std::int64_t done = 0; done < options.steps; done += kTurn)
    in_turn([&](std::size_t i) { runs[i]->train(std::min(done + kTurn, options.steps)); });
  in_turn([&](std::size_t i) {
    results[i] = runs[i]->finish(options.warm_up, roof);
    end_level(i);
  });
  return results;
}

}  // namespace samples
