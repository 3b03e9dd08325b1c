// measure(): time, lower bound, memory, losses and casts of a workload, for one or several levels.
#pragma once

#include "op_count.h"
#include "workload.h"

namespace samples {

/** Figures of one net at one level. */
struct Measurement {
  std::string net, level;
  std::string error = {};  // error of a failed run, which has no figures
  std::int64_t samples = 0, steps = 0;
  double step_ms = 0;               // median
  double fast_ms = 0, slow_ms = 0;  // 10 % and 90 % quantiles of the step times
  double samples_per_s = 0;         // samples of a step divided by the median step time
  mezzo::OpWork work;               // work of one step, including updates
  Floor floor;                      // lower bounds of the time for that work, in seconds
  mezzo::MemoryStats memory;        // peak memory of this net and its steps
  double loss = 0;                  // of the last step
  double loss_scale = 1;            // after the last step
  std::int64_t skipped_steps = 0;
  double casts_per_step = 0, cast_bytes_per_step = 0;
  std::vector<double> losses;  // of all steps, including the warm-up

  /** Returns the larger lower bound divided by the median step time. 1 means that a step takes no
   *  longer than its arithmetic or its memory traffic alone. */
  double share_of_floor() const;
};

struct MeasureOptions {
  std::int64_t warm_up = 3;  // steps that are not timed
  std::int64_t steps = 20;   // number of all steps
};

/** Constructs the workload, trains it and returns the figures. Losses are bitwise the same for
 *  equal settings and any number of threads. Errors: UsageError. */
Measurement measure(const std::string& net, const Setting& setting, const MeasureOptions& options,
                    const Roof& roof);

/** Function that receives each measurement when it is complete. It must not throw. */
using RowSink = std::function<void(const Measurement& row)>;

/** Measures several levels and returns one measurement per level, in their order. The level of the
 *  setting is ignored. The levels alternate after a few steps, so that drift of the machine affects
 *  all of them equally. A level that throws becomes a measurement with an error, and the others
 *  continue. */
std::vector<Measurement> measure_levels(const std::string& net,
                                        const std::vector<std::string>& levels,
                                        const Setting& setting, const MeasureOptions& options,
                                        const Roof& roof, const RowSink& row);

}  // namespace samples
