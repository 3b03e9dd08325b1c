// The update of every loss scale, from one formula: ScaleRule and ScaleState hold a scale,
// ScaleCall is the kernel call that counts a step, notes an overflow and updates the scale where
// the gradients are. Parsed by g++ and by nvcc. See also: ../../cuda/kernels/scale_call.cu (the
// kernel of CUDA devices).
#pragma once

#include "../../optim/nonfinite_location.h"
#include "../../optim/step_record.h"

namespace mezzo::amp {

/** The smallest normal f32, the lower bound of every scale: 1 / scale stays finite. */
inline constexpr double kScaleFloor = 0x1p-126;

/** The constants of a loss scale. */
struct ScaleRule {
  double growth = 2;           // factor of a growth
  double backoff = 0.5;        // factor after an overflow
  double least = kScaleFloor;  // lower bound
  double most = 0;             // upper bound
  std::int64_t window = 2000;  // consecutive checks without overflow before the scale grows
  std::int64_t tolerance = 1;  // consecutive overflows after which the scale backs off
  bool dynamic = true;         // false: checks are only counted
  bool is_f32 = false;         // the scale is rounded to f32
  bool stops_at_most = true;   // a growth beyond `most` is cut to `most`; false: it is left out

  /** Returns the value as a scale is stored. */
  MZ_HD double stored(double value) const {
    return is_f32 ? static_cast<double>(static_cast<float>(value)) : value;
  }
};

/** A loss scale, its counters and the check in progress. */
struct ScaleState {
  using Word = optim::NonfiniteLocation::Word;                    // a location
  static constexpr Word kNone = optim::NonfiniteLocation::kNone;  // no location

  double scale = 1;              // what the loss is multiplied by
  std::int64_t unskipped = 0;    // checks since the last overflow or growth
  std::int64_t tolerance = 1;    // overflows left until the scale backs off
  std::int64_t checks = 0;       // all checks
  std::int64_t overflows = 0;    // checks with an overflow
  Word first_nonfinite = kNone;  // first location of the latest check with an overflow
  std::int32_t found = 0;        // the check in progress has an overflow
  std::int32_t any = 0;          // the check in progress has gradients
  Word first = kNone;            // first location of the check in progress

  /** Adds an overflow to the check in progress, with its location if that is known. */
  MZ_HD void note(Word location = kNone) {
    found = 1;
    if (location < first) first = location;
  }
  /** Completes the check: updates scale and counters, if there were gradients. */
  MZ_HD void complete(const ScaleRule& rule) {
    const bool overflow = found != 0;
    ++checks;
    if (overflow) {
      ++overflows;
      first_nonfinite = first;
    }
    if (overflow || any != 0) move(rule, overflow);
    found = any = 0;
    first = kNone;
  }

 private:
  MZ_HD void move(const ScaleRule& rule, bool overflow) {
    if (rule.dynamic && overflow) {
      unskipped = 0;
      if (tolerance > 0) --tolerance;
      if (tolerance > 0) return;
      const double lower = scale * rule.backoff;
      const double least = rule.least > kScaleFloor ? rule.least : kScaleFloor;
      scale = rule.stored(lower > least ? lower : least);
      return;
    }
    tolerance = rule.tolerance;
    if (unskipped < INT64_MAX) ++unskipped;
    // unskipped can exceed the window after a load or a change of the window.
    if (!rule.dynamic || unskipped < rule.window) return;
    unskipped = 0;
    const double higher = rule.stored(scale * rule.growth);
    const bool fits = higher <= rule.most && higher - higher == 0;
    if (fits || rule.stops_at_most) scale = fits ? higher : rule.most;
  }
};

/** An overflow flag with the location of the first non-finite value. Both pointers may be null. */
struct OverflowFlag {
  float* raised = nullptr;            // non-zero after an overflow
  ScaleState::Word* first = nullptr;  // location of the first non-finite value
};

/** The arguments of a call. Pointers refer to memory of the device that runs it. */
struct ScaleCall {
  static constexpr int kMostRaised = 8;  // flags that one call can raise

  optim::StepCall step = {};        // counts a step first; nothing by default
  ScaleState* state = nullptr;      // updated
  float* scale32 = nullptr;         // receives the scale as f32; may be null
  double* scale64 = nullptr;        // receives the scale as f64; may be null
  ScaleRule rule = {};              // how the scale is updated
  OverflowFlag noted = {};          // added to the check in progress
  OverflowFlag reset = {};          // reset afterwards; may be equal to `noted`
  bool found = false;               // adds an overflow that the host has found
  bool any = false;                 // adds that there are gradients
  bool completes = false;           // completes the check: updates the scale
  float* raised[kMostRaised] = {};  // flags to raise if the check has an overflow; may be null
  bool raises_for_noted = false;    // raises them only if `noted` is raised

  /** Updates the scale. For one thread. */
  MZ_HD void update() const {
    const bool is_noted = noted.raised && *noted.raised != 0;
    if (is_noted && noted.first) state->note(*noted.first);
    if (is_noted || found) state->note();
    if (any) state->any = 1;
    if (reset.raised) *reset.raised = 0;
    if (reset.first) *reset.first = ScaleState::kNone;
    for (float* flag : raised)
      if (flag && (raises_for_noted ? is_noted : state->found != 0)) *flag = 1;
    if (!completes) return;
    state->complete(rule);
    if (scale32) *scale32 = static_cast<float>(state->scale);
    if (scale64) *scale64 = state->scale;
  }
};

/** Runs a call on a device. */
using ScaleKernel = void (*)(const ScaleCall& call, Device device);
/** Returns the kernel of a kind of device, for use or registration. */
MZ_API ScaleKernel& scale_kernel(DeviceKind kind);

}  // namespace mezzo::amp
