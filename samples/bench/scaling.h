// bench --scaling-model: measures a communicator and the steps of nets, and predicts the steps of
// more ranks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ranks.h"
#include "scaling_model.h"

namespace samples {

/** All-reduces of a communicator. */
struct CommunicatorCost {
  std::vector<ReduceTime> times;  // of 8 sizes from 1 KiB to 16 MiB; medians
  Link fitted;                    // latency and bandwidth of fit_link()
  double cpu_share = 0;           // CPU seconds of a rank per second, from 1 MiB on
};

/** A net at a level: what a rank computes in a step, and the steps of all ranks. */
struct ScalingRow {
  std::string net, level;
  StepTimes profile = {};  // of rank 0 while the others wait; medians
  StepTimes beside = {};   // while each rank computes for itself; empty with one rank
  double measured = 0;     // seconds of a step of all ranks; 0 with one rank
  double predicted = 0;    // of the same, from `beside` and the measured communicator
};

/** What bench --scaling-model found out. */
struct ScalingResults {
  int ranks = 1, threads = 1;                    // threads of each rank
  std::optional<CommunicatorCost> communicator;  // none with one rank
  double slow_down = 0;                          // Fabric::slow_down of the measured communicator
  std::vector<ScalingRow> rows;
  std::vector<std::string> left_out;  // nets of more than one model, which the model does not cover
};

/** Measures all-reduces, `rounds` of each size, and each net at each level; collective. Nets train
 *  on rank 0 alone, on each rank for itself, and on all ranks together, in turns. Complete on rank
 * 0 only. */
ScalingResults measure_scaling(const mezzo::comm::Communicator& all, const RankOptions& options,
                               std::int64_t rounds,
                               const std::function<void(const ScalingRow&)>& done);

}  // namespace samples
