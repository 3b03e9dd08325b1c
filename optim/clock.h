// ParamClock and ClockCall: an optimizer's counters, on the host and in device memory. Parsed by
// g++ and by nvcc.
// See also: step_record.h (the kernel call that counts a step).
#pragma once

#include <cmath>
#include <cstdint>

#include "../tensor/core/macros.h"

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

/** The update counter and bias corrections of one parameter. */
struct ParamClock {
  double beta1 = 0, beta2 = 0;              // of its running means; 0: no correction
  double correction1 = 1, correction2 = 1;  // bias corrections of the next update
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

/** The counters of parameters that one step updates. The pointer refers to memory of the device. */
struct ClockCall {
  static constexpr int kWords = 32, kMost = 64 * kWords;

  ParamClock* clocks = nullptr;  // of `count` parameters
  std::int32_t count = 0;        // at most kMost
  // Bit i % 64 of word i / 64 is set if the step updates parameter i.
  std::uint64_t taking_part[kWords] = {};

  /** Counts the update of every `threads`-th parameter from `thread` on. */
  MZ_HD void advance(int thread, int threads) const {
    for (int i = thread; i < count; i += threads)
      if ((taking_part[i / 64] >> (i % 64) & 1u) != 0) clocks[i].advance();
  }
};

}  // namespace mezzo::optim
