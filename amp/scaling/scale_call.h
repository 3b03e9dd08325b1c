// The update of every loss scale, from one formula: ScaleState holds a scale and its rule,
// ScaleCall is the kernel call that counts a step, notes an overflow and updates the scale where
// the gradients are. Parsed by g++ and by nvcc. See also: ../../cuda/kernels/scale_call.cu (the
// kernel of CUDA devices).
#pragma once

#include "../../optim/nonfinite_location.h"
#include "../../optim/step_record.h"

namespace mezzo::amp {

/** The smallest normal f32, the lower bound of every scale: 1 / scale stays finite. */
inline constexpr double kScaleFloor = 0x1p-126;

/** Returns true for a scale that f32 can hold, and 1 / scale too. */
inline bool is_usable_scale(double scale) {
  const auto stored = static_cast<float>(scale);
  return stored >= kScaleFloor && stored - stored == 0;
}

/** A loss scale: the rule that updates it, its counters and the check in progress. */
struct ScaleState {
  double growth = 2;            // factor of a growth
  double backoff = 0.5;         // factor after an overflow
  double least = 0;             // lower bound, besides kScaleFloor
  double most = HUGE_VAL;       // upper bound
  std::int64_t window = 2000;   // consecutive checks without overflow before the scale grows
  std::int64_t hysteresis = 1;  // consecutive overflows after which the scale backs off
  bool dynamic = true;          // false: checks are only counted
  bool is_f32 = false;          // the scale is rounded to f32
  bool stops_at_most = true;    // a growth beyond `most` is cut to `most`; false: it is left out

  double scale = 1;            // what the loss is multiplied by
  std::int64_t unskipped = 0;  // checks since the last overflow or growth
  std::int64_t tolerance = 1;  // overflows left until the scale backs off
  std::int64_t checks = 0;     // all checks
  std::int64_t overflows = 0;  // checks with an overflow
  optim::NonfiniteWord first_nonfinite = optim::kAllFinite;  // of the latest check with an overflow
  optim::NonfiniteWord first = optim::kAllFinite;            // the same of the check in progress

  /** Returns a scale as it is stored. */
  MZ_HD double stored(double value) const {
    return is_f32 ? static_cast<double>(static_cast<float>(value)) : value;
  }
  /** Completes the check: updates scale and counters, if there were gradients (`any`). */
  MZ_HD void complete(bool any) {
    const bool overflow = first != optim::kAllFinite;
    ++checks;
    if (overflow) {
      ++overflows;
      first_nonfinite = first;
      first = optim::kAllFinite;
    }
    if (!overflow && !any) return;
    if (dynamic && overflow) {
      unskipped = 0;
      if (tolerance > 0) --tolerance;
      if (tolerance > 0) return;
      const double lower = scale * backoff, bound = least > kScaleFloor ? least : kScaleFloor;
      scale = stored(lower > bound ? lower : bound);
      return;
    }
    tolerance = hysteresis;
    if (unskipped < INT64_MAX) ++unskipped;
    // unskipped can exceed the window after a load or a change of the window.
    if (!dynamic || unskipped < window) return;
    unskipped = 0;
    const double higher = stored(scale * growth);
    const bool fits = higher <= most && higher - higher == 0;
    if (fits || stops_at_most) scale = fits ? higher : most;
  }
};

/** The kernel call at the end of a step, and of a check without a step. Pointers refer to memory of
 *  the device that runs it. */
struct ScaleCall {
  static constexpr int kMostRaised = 8;  // flags that one call can raise

  optim::StepCall step = {};              // counts a step first; nothing by default
  ScaleState* state = nullptr;            // updated; null: the call only counts a step
  float* scale32 = nullptr;               // receives the scale as f32; may be null
  double* scale64 = nullptr;              // receives the scale as f64; may be null
  optim::NonfiniteWord* found = nullptr;  // an overflow flag, see optim::FoundInf; may be null
  bool notes = false;                     // adds the flag to the check in progress
  bool resets = false;                    // resets the flag afterwards
  bool completes = false;                 // completes the check: updates the scale
  bool any = false;                       // the completed check has gradients
  optim::NonfiniteWord* raised[kMostRaised] = {};  // flags to raise if `found` is; may be null

  /** Updates the scale. For one thread. */
  MZ_HD void update() const {
    if (!state) return;
    const optim::NonfiniteWord word = found ? *found : optim::kAllFinite;
    if (notes && word > state->first) state->first = word;
    for (optim::NonfiniteWord* const flag : raised)
      if (flag && word > *flag) *flag = word;
    if (resets && found) *found = optim::kAllFinite;
    if (!completes) return;
    state->complete(any);
    if (scale32) *scale32 = static_cast<float>(state->scale);
    if (scale64) *scale64 = state->scale;
  }
};

/** Runs a call on a device. */
using ScaleKernel = void (*)(const ScaleCall& call, Device device);
/** Returns the kernel of a kind of device, for use or registration. */
MZ_API ScaleKernel& scale_kernel(DeviceKind kind);

}  // namespace mezzo::amp
