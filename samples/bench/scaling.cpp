#include "scaling.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "rank_training.h"
#include "stopwatch.h"

namespace samples {

using namespace mezzo;

namespace {

using Clock = std::chrono::steady_clock;

constexpr double kCpuBucket = 4 << 20;  // DistributedDataParallelOptions::bucket_mib on the CPU

/** Sizes of all-reduces in bytes: powers of four. */
constexpr std::array<std::int64_t, 8> kSizes{1 << 10, 1 << 12, 1 << 14, 1 << 16,
                                             1 << 18, 1 << 20, 1 << 22, 1 << 24};

/** Measures all-reduces of f32; collective. */
CommunicatorCost measure_communicator(const comm::Communicator& all, std::int64_t rounds) {
  std::vector<Tensor> data;
  for (const std::int64_t size : kSizes) data.push_back(zeros({size / 4}));
  std::array<std::vector<double>, kSizes.size()> times;
  double large = 0, cpu = 0;  // seconds of all-reduces of 1 MiB and more
  for (std::int64_t round = -1; round < rounds; ++round)  // the first one is warm-up
    for (std::size_t i = 0; i < data.size(); ++i) {
      all.barrier();
      const double cpu_before = process_cpu_seconds();
      const double taken = seconds([&] { all.all_reduce(data[i], {.checked = false}).wait(); });
      if (round < 0) continue;
      times[i].push_back(taken);
      if (kSizes[i] < 1 << 20) continue;
      large += taken;
      cpu += process_cpu_seconds() - cpu_before;
    }
  CommunicatorCost cost;
  for (std::size_t i = 0; i < times.size(); ++i)
    cost.times.push_back({.bytes = static_cast<double>(kSizes[i]),
                          .seconds = median_of(max_over_ranks(all, times[i]))});
  cost.fitted = fit_link(cost.times);
  cost.cpu_share = std::min(1.0, all.sum(cpu) / all.sum(large));
  return cost;
}

/** The times at which backward passes of a model have computed each gradient. */
class ReadyTimes {
 public:
  explicit ReadyTimes(const nn::Module& model) {
    for (const Tensor& parameter : model.parameters())
      if (parameter.requires_grad()) entries_.push_back({.parameter = parameter});
    for (Entry& entry : entries_)
      entry.hook =
          register_post_accumulate_grad_hook(entry.parameter, [this, &entry](const Tensor&) {
            const std::chrono::duration<double> passed = Clock::now() - start_;
            entry.seconds.push_back(passed.count());
          });
  }
  ReadyTimes(const ReadyTimes&) = delete;
  ReadyTimes& operator=(const ReadyTimes&) = delete;

  /** Begins a step. */
  void start() { start_ = Clock::now(); }
  /** Clears the recorded steps. */
  void clear() {
    for (Entry& entry : entries_) entry.seconds.clear();
  }
  /** Returns the medians over the steps, in the order of time. */
  std::vector<ReadyGradient> gradients() const {
    std::vector<ReadyGradient> result;
    for (const Entry& entry : entries_)
      if (!entry.seconds.empty())
        result.push_back({.seconds = median_of(entry.seconds),
                          .bytes = static_cast<double>(entry.parameter.numel()) *
                                   static_cast<double>(item_size(entry.parameter.dtype()))});
    std::sort(result.begin(), result.end(),
              [](const ReadyGradient& a, const ReadyGradient& b) { return a.seconds < b.seconds; });
    return result;
  }

 private:
  struct Entry {
    Tensor parameter;
    std::vector<double> seconds = {};
    HookHandle hook = {};
  };
  Clock::time_point start_;
  std::vector<Entry> entries_;
};

/** The training of a net on this rank, with the times of its gradients. */
class ProfiledTraining {
 public:
  ProfiledTraining(const std::string& net, const Setting& setting)
      : training_(net, setting, comm::Communicator()), ready_(training_.models().front()) {}

  void step() {
    ready_.start();
    training_.step();
  }
  /** Clears the recorded steps. */
  void end_warm_up() {
    ready_.clear();
    training_.end_warm_up();
  }
  /** Returns the medians of all steps. Gradients are ready before the step's end in each step, so
   *  also in the medians. */
  StepTimes profile() {
    training_.end_turn();
    return {1e-3 * training_.times().ms.back(), ready_.gradients()};
  }

 private:
  RankTraining training_;
  ReadyTimes ready_;
};

/** Trains a net in turns on rank 0 alone, on each rank for itself at the same time, and on all
 * ranks together, and returns its row; collective. */
ScalingRow measure_net(const comm::Communicator& all, const RankOptions& options,
                       const std::string& net, const Setting& setting) {
  ProfiledTraining alone(net, setting);
  std::optional<ProfiledTraining> beside;
  std::optional<RankTraining> together;
  if (all.size() > 1) {
    beside.emplace(net, setting);
    together.emplace(net, setting, all);
  }
  const auto train = [&](std::int64_t steps) {
    for (std::int64_t i = 0; i < steps; ++i) {
      if (all.rank() == 0) alone.step();
      all.barrier();  // in each step, so that no rank waits for long
    }
    if (all.size() == 1) return;
    for (std::int64_t i = 0; i < steps; ++i) beside->step();
    train_together(all, *together, steps);
  };
  train(options.warm_up);
  alone.end_warm_up();
  if (beside) beside->end_warm_up();
  if (together) together->end_warm_up();
  for (std::int64_t left = options.steps - options.warm_up; left > 0; left -= kTurnSteps) {
    train(std::min(left, kTurnSteps));
    if (together) together->end_turn();
  }
  ScalingRow row{.net = net, .level = setting.level};
  if (all.rank() == 0) row.profile = alone.profile();
  if (beside) row.beside = beside->profile();
  if (together) row.measured = 1e-3 * median_of(max_over_ranks(all, together->times().ms));
  return row;
}

/** Returns whether a net has one model: the model of the step covers no others. */
bool has_one_model(const std::string& net, const Setting& setting) {
  return RankTraining(net, setting, comm::Communicator()).models().size() == 1;
}

/** Returns whether the ranks on this machine compute on all of its cores, so that reductions take
 *  time from computing. */
bool fills_cores(int local_ranks) {
  return local_ranks * num_threads() >= static_cast<int>(std::thread::hardware_concurrency());
}

}  // namespace

ScalingResults measure_scaling(const comm::Communicator& all, const RankOptions& options,
                               std::int64_t rounds,
                               const std::function<void(const ScalingRow&)>& done) {
  ScalingResults results;
  results.ranks = all.size();
  results.threads = num_threads();
  Fabric here;
  if (all.size() > 1) {
    results.communicator = measure_communicator(all, rounds);
    results.slow_down = fills_cores(options.local_ranks) ? results.communicator->cpu_share : 0;
    here = fabric_of(results.communicator->fitted, all.size(), results.slow_down, kCpuBucket);
  }
  for (const std::string& net : options.nets) {
    if (!has_one_model(net, options.setting)) {
      results.left_out.push_back(net);
      continue;
    }
    for (const std::string& level : options.levels) {
      Setting setting = options.setting;
      setting.level = level;
      ScalingRow row = measure_net(all, options, net, setting);
      if (all.size() > 1) row.predicted = predict_step(row.beside, here, all.size());
      results.rows.push_back(row);
      done(row);
    }
  }
  return results;
}

}  // namespace samples
