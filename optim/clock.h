// What an optimizer keeps on its device when nobody waits for its steps: how often each parameter was updated, the bias corrections that follow
// from it, and what became of the steps.
// Sees: tensor/device.h. Parsed by g++ and by nvcc.
// Read next: step_clock.h (who keeps it), update_settings.h (how updates read it), ../cuda/kernels/deferred.cu.
#pragma once

#include <cmath>
#include <cstdint>

#include "../tensor/device.h"
#include "../tensor/macros.h"

namespace mezzo::optim {

/** base^n with an error far below that of one rounding: every device gives the bits that a correctly rounded power has. */
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

/** 1 / (1 - beta^step), by which a running mean that started at 0 is too small. */
MZ_HD inline double bias_correction_of(double beta, std::int64_t step) {
#ifdef __CUDA_ARCH__
  return 1 /
         (1 - exact_power(
                  beta, step));  // the host's power is right to the last bit but for a few cases in a hundred
#else
  return 1 / (1 - std::pow(beta, static_cast<double>(step)));
#endif
}

/** One parameter's. */
struct ParamClock {
  double beta1 = 0, beta2 = 0;              // of its running means; 0 where nothing is to be corrected
  double correction1 = 1, correction2 = 1;  // of the coming update
  std::int64_t steps = 0;                   // updates so far

  MZ_HD void prepare() {
    correction1 = beta1 == 0 ? 1 : bias_correction_of(beta1, steps + 1);
    correction2 = beta2 == 0 ? 1 : bias_correction_of(beta2, steps + 1);
  }
  MZ_HD void advance() {
    ++steps;
    prepare();
  }
};

/** What became of an optimizer's steps. */
struct StepRecord {
  std::int64_t stepped = 0, skipped = 0;
  std::int64_t consecutive_skips = 0;
  std::int64_t divergences = 0;  // how often that count has reached its limit; it starts again at 0 then
  std::int64_t limit = 0;        // which limit, at the latest divergence
  std::int32_t last_was_skipped = 0;
  std::int32_t unused = 0;

  MZ_HD void note(bool skip, std::int64_t limit_now) {
    last_was_skipped = skip ? 1 : 0;
    if (!skip) {
      ++stepped;
      consecutive_skips = 0;
      return;
    }
    ++skipped;
    if (++consecutive_skips != limit_now) return;
    consecutive_skips = 0;
    this->limit = limit_now;
    ++divergences;
  }
};

/** Counts one step. Pointers lead to the device's memory. */
struct ClockCall {
  static constexpr int kWords = 32, kMost = 64 * kWords;

  ParamClock* clocks = nullptr;      // of `count` parameters
  StepRecord* record = nullptr;      // null in all calls of a step but the last
  const float* found_inf = nullptr;  // where it points to anything but 0 the step was skipped; may be null
  std::int64_t limit = 0;            // of consecutive skips; 0: none
  std::int32_t count = 0;
  std::uint64_t taking_part[kWords] = {};  // bit i % 64 of word i / 64: parameter i was to be updated

  MZ_HD bool takes_part(int i) const { return (taking_part[i / 64] >> (i % 64) & 1u) != 0; }
};

/** The kernel of a kind of device. */
struct MZ_API ClockKernels {
  void (*count)(const ClockCall& call, Device device) = nullptr;
};
MZ_API ClockKernels& clock_kernels(DeviceKind kind);

}  // namespace mezzo::optim
