// RankTraining: the training of a net on this rank, alone or together with the other ranks, in
// turns with other trainings.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "workload.h"

namespace samples {

/** Steps of a turn. The median of a turn is one value of the statistics. */
inline constexpr std::int64_t kTurnSteps = 5;

/** Returns the CPU seconds that all threads of this process have used. */
double process_cpu_seconds();

/** Times of a step in milliseconds, a value for each turn. */
struct TurnTimes {
  std::vector<double> ms, cpu_ms;           // medians of the turn's steps
  std::vector<double> comm_ms, exposed_ms;  // means: reductions, and how long backward() waited
};

/** The training of a net on this rank. */
class RankTraining {
 public:
  /** Initialises the net. With more than one rank in `group`, its gradients are reduced over the
   *  group, which is collective. */
  RankTraining(const std::string& net, const Setting& setting,
               const mezzo::comm::Communicator& group);

  /** Trains one step and records its times. */
  void step();
  /** Adds the steps since the last turn or the warm-up to times(). */
  void end_turn();
  /** Clears the recorded steps. */
  void end_warm_up();

  const TurnTimes& times() const { return times_; }
  /** Returns the bytes of gradients that a step of the last turn reduced. */
  std::int64_t bytes_per_step() const { return bytes_per_step_; }
  /** Returns the samples of a step. */
  std::int64_t samples() const { return workload_->samples; }
  /** Returns the models. */
  std::vector<mezzo::nn::Module> models() const;

 private:
  mezzo::nn::ReductionStatistics statistics() const;

  std::unique_ptr<Workload> workload_;
  std::vector<std::unique_ptr<mezzo::nn::DistributedDataParallel<mezzo::nn::Module>>> wrappers_;
  std::vector<double> ms_, cpu_ms_;        // of the steps of this turn
  mezzo::nn::ReductionStatistics before_;  // this turn
  TurnTimes times_;
  std::int64_t steps_ = 0, bytes_per_step_ = 0;
};

/** Trains so many steps on all ranks of `all` together; collective. */
void train_together(const mezzo::comm::Communicator& all, RankTraining& training,
                    std::int64_t steps);
/** Trains so many steps on rank 0; collective. `training` is null on the other ranks, which sleep
 *  meanwhile. They wait in a barrier after each step, so that none waits for longer than a step. */
void train_alone(const mezzo::comm::Communicator& all, RankTraining* training, std::int64_t steps);

/** Returns for each turn the mean over the ranks of their CPU time; collective. */
std::vector<double> mean_over_ranks(const mezzo::comm::Communicator& all,
                                    const std::vector<double>& values);
/** Returns for each turn the largest value of all ranks; collective. */
std::vector<double> max_over_ranks(const mezzo::comm::Communicator& all,
                                   const std::vector<double>& values);

}  // namespace samples
