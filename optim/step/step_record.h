// What a step of an optimizer changes besides tensors, in the memory of the device that updates:
// the updates of each parameter, the results of steps, the loss scale; and the end of a step, which
// counts it and updates the scale. Parsed by g++ and by nvcc.
//
// See also: step_state.h and ../../amp/scaling/scale.h (the host's side),
// ../../cuda/kernels/updates.cu (the kernel of CUDA devices).
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "../../tensor/core/macros.h"
#include "../../tensor/device/device.h"

namespace mezzo::optim {

// ---- non-finite values --------------------------------------------------------------------------

/** The location of a non-finite value: the number of a tensor, the element, and which of the three
 *  values it is. The word of the first location, by (number, element), is the largest. */
using NonfiniteWord = unsigned long long;  // the type of CUDA's 64-bit atomics

inline constexpr NonfiniteWord kAllFinite = 0;        // no value; below all others
inline constexpr NonfiniteWord kUnknownLocation = 1;  // of a value whose location is not known
inline constexpr int kElementBits = 40, kNumberBits = 22;
// The largest number of a tensor; larger ones are stored as this one.
inline constexpr std::uint32_t kMostNumber = (std::uint32_t{1} << kNumberBits) - 1;

/** Returns the word of a non-finite value. `element` is its offset in the tensor's memory. */
template <class T>
MZ_HD NonfiniteWord nonfinite_word(std::size_t number, std::int64_t element, T value) {
  const NonfiniteWord kind = value != value ? 0 : value > 0 ? 1 : 2;
  const NonfiniteWord known = number < kMostNumber ? number : kMostNumber;
  return ~(known << (kElementBits + 2) | static_cast<NonfiniteWord>(element) << 2 | kind);
}
/** Returns the number of the tensor. */
constexpr std::uint32_t number_of(NonfiniteWord word) {
  return static_cast<std::uint32_t>(~word >> (kElementBits + 2));
}
/** Returns the element's offset in the tensor's memory. */
constexpr std::int64_t element_of(NonfiniteWord word) {
  return static_cast<std::int64_t>(~word >> 2 & ((NonfiniteWord{1} << kElementBits) - 1));
}
/** Returns the value: NaN, infinity or -infinity. */
constexpr double value_of(NonfiniteWord word) {
  const NonfiniteWord kind = ~word & 3;
  return kind == 0 ? NAN : kind == 1 ? HUGE_VAL : -HUGE_VAL;
}

// ---- results ------------------------------------------------------------------------------------

class StepState;

/** The result of a step. If the overflow flag that decides on the step is in the memory of a
 *  device, the result is read from there when it is first looked at. */
class MZ_API StepResult {
 public:
  /** What a step did. */
  enum Value : std::uint8_t {
    stepped,   // the parameters have been updated
    skipped,   // mixed precision found an overflow; nothing has changed
    no_grads,  // no parameter has a gradient
  };
  // The number of later steps after which a result that was not looked at is dropped.
  static constexpr int kKept = 128;

  StepResult(Value value = stepped) : value_(value) {}  // NOLINT: implicit on purpose
  /** A result in device memory: of the step after which the optimizer has taken or skipped `steps`
   *  steps; -1 for a step that is being captured. */
  StepResult(std::shared_ptr<StepState> state, std::int64_t steps)
      : value_(stepped), state_(std::move(state)), steps_(steps) {}

  /** Returns the value. Waits for the device if it is not known. Errors: StateError in a captured
   *  step, where it is never known (see Optimizer::last_result); StateError if the optimizer has
   *  taken kKept more steps; amp::DivergenceError after too many skips. */
  Value value() const;
  /** Returns value(), for comparisons and switch. */
  operator Value() const { return value(); }  // NOLINT: implicit on purpose
  /** Returns true if value() does not wait. */
  bool is_known() const { return !state_; }

 private:
  mutable Value value_;
  mutable std::shared_ptr<StepState> state_;  // null if the value is known
  std::int64_t steps_ = 0;
};

/** Returns "stepped", "skipped" or "no_grads". */
MZ_API std::string_view name(StepResult::Value result);

// ---- updates ------------------------------------------------------------------------------------

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

// ---- steps --------------------------------------------------------------------------------------

/** The results of an optimizer's steps. */
struct StepRecord {
  std::int64_t steps = 0, skipped = 0;   // numbers of all steps and of skipped ones
  std::int64_t consecutive_skips = 0;    // reset at a divergence
  std::int64_t divergences = 0;          // times that consecutive_skips reached its limit
  std::int64_t skips_at_divergence = 0;  // consecutive skips of the latest divergence
  std::uint64_t recent[StepResult::kKept / 64] =
      {};  // bit i: the step before the latest i was skipped
  // Blocks of the update in progress that have finished; 0 between updates.
  unsigned finished_blocks = 0;

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

/** The smallest normal f32, the lower bound of every scale: 1 / scale stays finite. */
inline constexpr double kScaleFloor = 0x1p-126;

/** A loss scale: the rule that updates it, its counters and the check in progress. */
struct ScaleState {
  double growth_factor = 2;             // multiplies the scale after clean checks
  double backoff_factor = 0.5;          // multiplies the scale after an overflow
  double min_scale = 0;                 // lower bound, besides kScaleFloor
  double max_scale = HUGE_VAL;          // upper bound
  std::int64_t growth_interval = 2000;  // checks without overflow in a row before the scale grows
  std::int64_t hysteresis = 1;          // overflows in a row after which the scale backs off
  bool dynamic = true;                  // false: checks are only counted
  bool is_f32 = false;                  // the scale is rounded to f32
  bool stops_at_max = true;  // growth beyond max_scale is cut to that; false: it is left out

  double scale = 1;                            // what the loss is multiplied by
  std::int64_t unskipped = 0;                  // checks since the last overflow or growth
  std::int64_t hysteresis_left = 1;            // overflows left until the scale backs off
  std::int64_t checks = 0;                     // all checks
  std::int64_t overflows = 0;                  // checks with an overflow
  NonfiniteWord first_nonfinite = kAllFinite;  // of the latest check with an overflow
  NonfiniteWord first = kAllFinite;            // the same of the check in progress

  /** Returns a scale as it is stored. */
  MZ_HD double stored(double value) const {
    return is_f32 ? static_cast<double>(static_cast<float>(value)) : value;
  }
  /** Completes the check: updates scale and counters, if there were gradients (`any`). */
  MZ_HD void complete(bool any) {
    const bool overflow = first != kAllFinite;
    ++checks;
    if (overflow) {
      ++overflows;
      first_nonfinite = first;
      first = kAllFinite;
    }
    if (!overflow && !any) return;
    if (dynamic && overflow) {
      unskipped = 0;
      if (hysteresis_left > 0) --hysteresis_left;
      if (hysteresis_left > 0) return;
      const double lower = scale * backoff_factor,
                   bound = min_scale > kScaleFloor ? min_scale : kScaleFloor;
      scale = stored(lower > bound ? lower : bound);
      return;
    }
    hysteresis_left = hysteresis;
    if (unskipped < INT64_MAX) ++unskipped;
    // unskipped can exceed the interval after a load or a change of the interval.
    if (!dynamic || unskipped < growth_interval) return;
    unskipped = 0;
    const double higher = stored(scale * growth_factor);
    const bool fits = higher <= max_scale && higher - higher == 0;
    if (fits || stops_at_max) scale = fits ? higher : max_scale;
  }
};

/** What happens once in a step, after all that reads the counters, rates, flag and scale of the
 * step. Pointers refer to memory of the device that runs it. */
struct StepEnd {
  StepRecord* record = nullptr;        // counts the step; may be null
  std::int64_t limit = 0;              // of consecutive skips; 0: no limit
  NonfiniteWord* found_inf = nullptr;  // not kAllFinite: the step was skipped; may be null
  ScaleState* scale = nullptr;         // adds the flag to its check in progress; may be null
  float* scale32 = nullptr;            // receives the scale as f32; may be null
  double* scale64 = nullptr;           // receives the scale as f64; may be null
  bool resets = false;                 // resets the flag afterwards
  bool completes = false;              // completes the check: updates the scale
  bool any = false;                    // the completed check has gradients

  /** Returns true if the step is skipped. */
  MZ_HD bool skips() const { return found_inf && *found_inf != kAllFinite; }
  /** Raises another flag to this one. For one thread. */
  MZ_HD void raise(NonfiniteWord* flag) const {
    if (*found_inf > *flag) *flag = *found_inf;
  }
  /** Counts the step and updates the scale. For one thread. */
  MZ_HD void run() const {
    const NonfiniteWord word = found_inf ? *found_inf : kAllFinite;
    if (record) record->note(word != kAllFinite, limit);
    if (scale && word > scale->first) scale->first = word;
    if (resets && found_inf) *found_inf = kAllFinite;
    if (!completes) return;
    scale->complete(any);
    if (scale32) *scale32 = static_cast<float>(scale->scale);
    if (scale64) *scale64 = scale->scale;
  }
};

/** Raises `raised` to the flag of `end`, then does `end`, on a device: for ends that are no part of
 *  an update. */
using EndKernel = void (*)(const StepEnd& end, std::span<NonfiniteWord* const> raised,
                           Device device);
/** Returns the kernel of a kind of device, for use or registration. */
MZ_API EndKernel& end_kernel(DeviceKind kind);

}  // namespace mezzo::optim
