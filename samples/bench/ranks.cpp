#include "ranks.h"

#include <chrono>
#include <optional>

#include "rank_training.h"

namespace samples {

using namespace mezzo;

namespace {

using Clock = std::chrono::steady_clock;

/** Returns the medians of a[i] / (count * b[i]), of equally many turns. */
MedianInterval efficiency(const std::vector<double>& a, const std::vector<double>& b, int count) {
  std::vector<double> ratios;
  for (std::size_t i = 0; i < a.size(); ++i) ratios.push_back(a[i] / (count * b[i]));
  return median_interval(ratios);
}

/** The trainings of one net at one level. */
class Comparison {
 public:
  Comparison(const comm::Communicator& all, const std::string& net, const Setting& setting)
      : all_(all), full_(net, setting, all) {
    const std::int64_t batch = full_.samples();
    const auto with_batch = [&](std::int64_t samples) {
      Setting changed = setting;
      changed.batch = samples;
      return changed;
    };
    if (batch % all.size() == 0) split_.emplace(net, with_batch(batch / all.size()), all);
    if (all.rank() != 0) return;
    single_.emplace(net, with_batch(batch), comm::Communicator());
    joint_.emplace(net, with_batch(batch * all.size()), comm::Communicator());
  }

  void warm_up(std::int64_t steps) {
    train(steps);
    each([](RankTraining& training) { training.end_warm_up(); });
  }

  void turn(std::int64_t steps) {
    train(steps);
    each([](RankTraining& training) { training.end_turn(); });
  }

  /** Returns true, on all ranks, if the figures of rank 0 make a stable row. */
  bool stable() const {
    const double width =
        joint_
            ? efficiency(joint_->times().cpu_ms, full_.times().cpu_ms, all_.size()).relative_width()
            : 0;
    return all_.max(width) <= bench::kStableWidth;
  }

  RankRow row() const {
    RankRow row;
    row.ranks = all_.size();
    row.threads = num_threads();
    row.samples = full_.samples();
    const TurnTimes full = over_ranks(full_.times());
    row.turns = std::ssize(full.ms);
    row.ms = median_interval(full.ms);
    row.cpu_ms = median_interval(full.cpu_ms);
    row.comm_ms = median_of(full.comm_ms);
    row.exposed_ms = median_of(full.exposed_ms);
    row.bytes = full_.bytes_per_step();
    const TurnTimes split = split_ ? over_ranks(split_->times()) : TurnTimes();
    if (all_.rank() != 0) return row;
    const TurnTimes &joint = joint_->times(), &single = single_->times();
    row.joint_ms = median_of(joint.ms);
    row.joint_cpu_ms = median_of(joint.cpu_ms);
    row.weak = efficiency(joint.ms, full.ms, row.ranks);
    row.weak_cpu = efficiency(joint.cpu_ms, full.cpu_ms, row.ranks);
    row.single_ms = median_of(single.ms);
    row.single_cpu_ms = median_of(single.cpu_ms);
    if (!split_) return row;
    row.split_ms = median_of(split.ms);
    row.split_cpu_ms = median_of(split.cpu_ms);
    row.strong = efficiency(single.ms, split.ms, row.ranks);
    row.strong_cpu = efficiency(single.cpu_ms, split.cpu_ms, row.ranks);
    return row;
  }

 private:
  static RankTraining* pointer(std::optional<RankTraining>& training) {
    return training ? &*training : nullptr;
  }

  void train(std::int64_t steps) {
    train_alone(all_, pointer(joint_), steps);
    train_together(all_, full_, steps);
    train_alone(all_, pointer(single_), steps);
    if (split_) train_together(all_, *split_, steps);
  }

  template <class F> void each(const F& f) {
    f(full_);
    for (auto* training : {&split_, &single_, &joint_})
      if (*training) f(**training);
  }

  /** Returns the slowest rank's time of each turn, and the means of the other figures. */
  TurnTimes over_ranks(const TurnTimes& times) const {
    return {.ms = max_over_ranks(all_, times.ms),
            .cpu_ms = mean_over_ranks(all_, times.cpu_ms),
            .comm_ms = mean_over_ranks(all_, times.comm_ms),
            .exposed_ms = mean_over_ranks(all_, times.exposed_ms)};
  }

  comm::Communicator all_;
  RankTraining full_;                           // batches of B, on all ranks
  std::optional<RankTraining> split_;           // batches of B / ranks, on all ranks
  std::optional<RankTraining> single_, joint_;  // batches of B and ranks * B, on rank 0
};

}  // namespace

void measure_ranks(const comm::Communicator& all, const RankOptions& options,
                   const std::function<void(const RankRow&)>& done) {
  const double limit =
      options.seconds / static_cast<double>(options.nets.size() * options.levels.size());
  const std::int64_t steps = options.steps - options.warm_up;
  for (const std::string& net : options.nets)
    for (const std::string& level : options.levels) {
      Setting setting = options.setting;
      setting.level = level;
      // Other data on each rank; the weights are those of rank 0.
      setting.seed += static_cast<std::uint64_t>(all.rank());
      Comparison comparison(all, net, setting);
      comparison.warm_up(options.warm_up);
      for (std::int64_t left = steps; left > 0; left -= kTurnSteps)
        comparison.turn(std::min(left, kTurnSteps));
      const auto start = Clock::now();
      const auto in_time = [&] {
        const double spent = std::chrono::duration<double>(Clock::now() - start).count();
        return all.max(all.rank() == 0 && spent < limit ? 1 : 0) == 1;
      };
      while (in_time() && !comparison.stable()) comparison.turn(kTurnSteps);
      RankRow row = comparison.row();
      row.net = net;
      row.level = level;
      done(row);
    }
}

}  // namespace samples
