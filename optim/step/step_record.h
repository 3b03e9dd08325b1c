// What the steps of an optimizer count, in the memory of the device that updates: the updates of
// each parameter, and the results of steps; and the kernel call that counts a step. Parsed by g++
// and by nvcc.
//
// See also: step_state.h (the host's side), ../../cuda/kernels/scale_call.cu (the kernel of CUDA
// devices).
#pragma once

#include <cmath>
#include <cstdint>

#include "../../tensor/core/macros.h"
#include "../../tensor/device/device.h"
#include "nonfinite.h"
#include "step_result.h"

namespace mezzo::optim {

/** Returns base^n, computed in double-double arithmetic. The error before the final rounding is far
 *  below one ulp, so every device returns the bits of a correctly rounded power. */
MZ_HD inline double exact_power(double base, std::int64_t n) {
  double high = 1, low = 0, factor = base, factor_low = 0;
  const auto multiply = [](double& x, double& x_low, double y, double y_low) {
    using std::fma;
    const double product = x * y;
    const double rest = fma(x, y, -product) + (x * y_low + x_low * y);
    x = product + rest;
    x_low = rest - (x - product);
  };
  for (; n > 0; n /= 2) {
    if (n % 2 == 1) multiply(high, low, factor, factor_low);
    multiply(factor, factor_low, factor, factor_low);
  }
  return high;
}

/** Returns 1 / (1 - beta^step), the bias correction of a running mean that started at 0. */
MZ_HD inline double bias_correction_of(double beta, std::int64_t step) {
#ifdef __CUDA_ARCH__
  // Equals the host's std::pow in all but a few percent of cases, where std::pow is not correctly
  // rounded.
  return 1 / (1 - exact_power(beta, step));
#else
  return 1 / (1 - std::pow(beta, static_cast<double>(step)));
#endif
}

/** The updates of one parameter, and the bias corrections of its next update. */
struct UpdateCounter {
  double beta1 = 0, beta2 = 0;              // of its running means; 0: no correction
  double correction1 = 1, correction2 = 1;  // 1 / (1 - beta^t), or 1
  std::int64_t steps = 0;                   // updates so far

  /** Computes the corrections of the next update. */
  MZ_HD void prepare() {
    correction1 = beta1 == 0 ? 1 : bias_correction_of(beta1, steps + 1);
    correction2 = beta2 == 0 ? 1 : bias_correction_of(beta2, steps + 1);
  }
  /** Counts an update. */
  MZ_HD void advance() {
    ++steps;
    prepare();
  }
};

/** What an update reads from its device, where a captured step finds the present values. */
struct UpdateTime {
  const double* lr = nullptr;              // learning rate of the group
  const UpdateCounter* counter = nullptr;  // of the parameter

  bool operator==(const UpdateTime&) const = default;
  /** Returns the learning rate. */
  MZ_HD double rate() const { return *lr; }
  /** Returns the bias correction of the first running mean; 1 if there is none. */
  MZ_HD double correction1() const { return counter->correction1; }
  /** Returns the bias correction of the second running mean; 1 if there is none. */
  MZ_HD double correction2() const { return counter->correction2; }
  /** Returns the number of the update, counted from 1. */
  MZ_HD std::int64_t step() const { return counter->steps + 1; }
};

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
  static constexpr int kWords = 32, kMost = 64 * kWords;

  UpdateCounter* counters = nullptr;  // of `count` parameters
  std::int32_t count = 0;             // at most kMost
  // Bit i % 64 of word i / 64 is set if the step updates parameter i.
  std::uint64_t updated[kWords] = {};
  // Not kAllFinite: the step was skipped; may be null.
  const NonfiniteWord* found_inf = nullptr;
  StepRecord* record = nullptr;  // null in all calls of a step except the last
  std::int64_t limit = 0;        // of consecutive skips; 0: no limit

  /** Does the share of one of `threads` threads. */
  MZ_HD void run(int thread, int threads) const {
    const bool skip = found_inf && *found_inf != kAllFinite;
    for (int i = thread; i < count && !skip; i += threads)
      if ((updated[i / 64] >> (i % 64) & 1u) != 0) counters[i].advance();
    if (record && thread == 0) record->note(skip, limit);
  }
};

/** Runs a call on a device. */
using StepKernel = void (*)(const StepCall& call, Device device);
/** Returns the kernel of a kind of device, for use or registration. */
MZ_API StepKernel& step_kernel(DeviceKind kind);

}  // namespace mezzo::optim
