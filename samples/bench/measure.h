// measure: a workload's figures: time, floor, memory, losses, casts; and levels measured in turns.
// Sees: op_count.h, workload.h.
// Read next: measure.cpp, report.h (how they are shown).
#pragma once

#include "op_count.h"
#include "workload.h"

namespace samples {

struct Measurement {
  std::string net, level;
  std::string error = {};  // why it failed; then there are no figures
  std::int64_t samples = 0, steps = 0;
  double step_ms = 0;               // median
  double fast_ms = 0, slow_ms = 0;  // a tenth of the steps was faster, a tenth slower
  double samples_per_s = 0;         // samples of a step over the median step
  Work work;                        // of one step, updates included
  Floor floor;                      // what that takes at least on this machine, in seconds
  mezzo::MemoryStats memory;        // peaks of what this net and its steps held
  double loss = 0;                  // of the last step
  double loss_scale = 1;            // behind it
  std::int64_t skipped_steps = 0;
  double casts_per_step = 0, cast_bytes_per_step = 0;
  std::vector<double> losses;  // of every step, those of the warm-up included

  /** The larger floor over the median step: 1 would be a step that does nothing but its arithmetic, or its memory's traffic. */
  double share_of_floor() const;
};

struct MeasureOptions {
  std::int64_t warm_up = 3;  // steps before time counts
  std::int64_t steps = 20;   // in all
};

/** Makes the workload, trains it and takes the figures. Same setting: same losses, bit for bit, for any number of threads. Errors: UsageError. */
Measurement measure(const std::string& net, const Setting& setting, const MeasureOptions& options,
                    const Roof& roof);

/** Receives a measurement as soon as it is complete; must not throw. */
using RowSink = std::function<void(const Measurement& row)>;

/** The same for several levels (the setting's own is ignored). They take turns of a few steps, so that drift
 *  of the machine hits all of them alike. A level that throws becomes a measurement with an error, and the
 *  others go on. Returns one measurement per level, in their order. */
std::vector<Measurement> measure_levels(const std::string& net, const std::vector<std::string>& levels,
                                        const Setting& setting, const MeasureOptions& options,
                                        const Roof& roof, const RowSink& row);

}  // namespace samples
