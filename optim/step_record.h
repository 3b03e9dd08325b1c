// StepRecord and StepCall: the results of an optimizer's steps, and the kernel call that counts a
// step. Parsed by g++ and by nvcc.
// See also: ../cuda/kernels/scale_call.cu (the kernel of CUDA devices).
#pragma once

#include "../tensor/device/device.h"
#include "clock.h"
#include "nonfinite_location.h"
#include "step_result.h"

namespace mezzo::optim {

/** The results of an optimizer's steps. */
struct StepRecord {
  std::int64_t steps = 0, skipped = 0;   // numbers of all steps and of skipped ones
  std::int64_t consecutive_skips = 0;    // reset at a divergence
  std::int64_t divergences = 0;          // times that consecutive_skips reached its limit
  std::int64_t skips_at_divergence = 0;  // consecutive skips of the latest divergence
  std::uint64_t recent[StepResult::kKept / 64] =
      {};  // bit i: the step before the latest i was skipped

  /** Counts a step. `limit` consecutive skips are a divergence; 0: no limit. */
  MZ_HD void note(bool skip, std::int64_t limit) {
    ++steps;
    recent[1] = recent[1] << 1 | recent[0] >> 63;
    recent[0] = recent[0] << 1 | (skip ? 1 : 0);
    skipped += skip ? 1 : 0;
    consecutive_skips = skip ? consecutive_skips + 1 : 0;
    if (!skip || limit == 0 || consecutive_skips < limit) return;
    skips_at_divergence = consecutive_skips;
    consecutive_skips = 0;
    ++divergences;
  }
  /** Returns true if the step before the latest `age` < kKept was skipped. */
  bool was_skipped(std::int64_t age) const { return (recent[age / 64] >> (age % 64) & 1u) != 0; }
};

/** Counts one step, unless a flag is raised. Pointers refer to memory of the device that runs it.
 */
struct StepCall {
  ClockCall clocks = {};
  // Not kAllFinite: the step was skipped; may be null.
  const NonfiniteWord* found_inf = nullptr;
  StepRecord* record = nullptr;  // null in all calls of a step except the last
  std::int64_t limit = 0;        // of consecutive skips; 0: no limit

  /** Does one thread's share. */
  MZ_HD void run(int thread, int threads) const {
    const bool skip = found_inf && *found_inf != kAllFinite;
    if (!skip) clocks.advance(thread, threads);
    if (record && thread == 0) record->note(skip, limit);
  }
};

/** Runs a call on a device. */
using StepKernel = void (*)(const StepCall& call, Device device);
/** Returns the kernel of a kind of device, for use or registration. */
MZ_API StepKernel& step_kernel(DeviceKind kind);

}  // namespace mezzo::optim
