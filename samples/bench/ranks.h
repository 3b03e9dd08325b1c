// bench --ranks: what training on several ranks costs, against the same work on one rank.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "workload.h"

namespace samples {

/** What bench --ranks measures. */
struct RankOptions {
  std::vector<std::string> nets, levels;
  Setting setting;           // batch: of a step of each rank; device: cpu
  std::int64_t warm_up = 5;  // first steps of each training, which are not timed
  std::int64_t steps = 40;   // of each training, with the warm-up
  double seconds = 10;       // limit of the time of all rows for more turns, until they are stable
  int local_ranks = 1;       // ranks on this machine
};

/** Figures of one net at one level. Efficiency is the time of one rank for the work of all, over
 *  the sum of the ranks' times: 1 means that the communication costs nothing. */
struct RankRow {
  std::string net, level;
  int ranks = 1, threads = 1;  // threads of each rank
  std::int64_t samples = 0;    // B: of a step of each rank
  std::int64_t turns = 0;      // of which figures are medians

  // All ranks with batches of B:
  mezzo::MedianInterval ms, cpu_ms;    // of a step; CPU time of a rank
  double comm_ms = 0, exposed_ms = 0;  // in which gradients were reduced, and backward() waited
  std::int64_t bytes = 0;              // of the gradients of a step

  // One rank with a batch of ranks * B, against all ranks with B:
  double joint_ms = 0, joint_cpu_ms = 0;
  mezzo::MedianInterval weak, weak_cpu;
  // One rank with a batch of B, against all ranks with B / ranks; zeros if that is no integer:
  double single_ms = 0, single_cpu_ms = 0, split_ms = 0, split_cpu_ms = 0;
  mezzo::MedianInterval strong, strong_cpu;

  bool has_strong() const { return split_ms > 0; }
};

/** Trains each net at each level on all ranks, and passes the rows to `done`; collective. The four
 *  trainings of a row take turns of kTurnSteps steps. */
void measure_ranks(const mezzo::comm::Communicator& all, const RankOptions& options,
                   const std::function<void(const RankRow&)>& done);

}  // namespace samples
