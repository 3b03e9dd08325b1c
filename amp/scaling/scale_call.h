// ScaleCall: one kernel call on a loss scale, which counts a step, notes an overflow and updates
// the scale where the gradients are. Parsed by g++ and by nvcc.
// See also: ../../cuda/kernels/scale_call.cu (the kernel of CUDA devices).
#pragma once

#include "../../optim/clock.h"
#include "../../optim/nonfinite_location.h"
#include "scale_rule.h"

namespace mezzo::amp {

/** A loss scale and its counters, in the memory of the device that has the gradients. */
struct ScaleCell {
  using Word = optim::NonfiniteLocation::Word;

  ScaleState state;
  std::int64_t overflows = 0, checks = 0;        // checks with an overflow; all checks
  std::int32_t found = 0;                        // the check in progress has an overflow
  std::int32_t any = 0;                          // the check in progress has gradients
  Word first = optim::NonfiniteLocation::kNone;  // first location of the check in progress
  // First location of the latest check with an overflow.
  Word first_nonfinite = optim::NonfiniteLocation::kNone;
};

/** An overflow flag with the location of the first non-finite value. Both pointers may be null. */
struct OverflowFlag {
  float* raised = nullptr;  // non-zero after an overflow
  ScaleCell::Word* first = nullptr;

  /** Resets the flag and the location. */
  MZ_HD void reset() const {
    if (raised) *raised = 0;
    if (first) *first = optim::NonfiniteLocation::kNone;
  }
};

/** The arguments of a call. Pointers refer to memory of the device that runs it. */
struct ScaleCall {
  static constexpr int kMostRaised = 8;

  optim::ClockCall clock = {};  // counts a step first; nothing if its clocks are null
  ScaleCell* cell = nullptr;
  float* scale32 = nullptr;   // receives the scale as f32
  double* scale64 = nullptr;  // receives the scale as f64
  ScaleRule rule = {};
  OverflowFlag noted = {};  // added to the check in progress
  OverflowFlag reset = {};  // reset afterwards; may be equal to `noted`
  bool found = false;       // adds an overflow that the host has found
  bool any = false;         // adds that there are gradients
  bool completes = false;   // completes the check: updates the scale
  // Flags to raise if the check has an overflow; null after the last one.
  float* raised[kMostRaised] = {};
  bool raises_for_noted = false;  // raises them only if `noted` is raised

  /** Updates the cell. For one thread. */
  MZ_HD void run_cell() const {
    const bool noted_one = noted.raised && *noted.raised != 0;
    if (noted_one) {
      cell->found = 1;
      if (noted.first && *noted.first < cell->first) cell->first = *noted.first;
    }
    reset.reset();
    if (found) cell->found = 1;
    if (any) cell->any = 1;
    const bool overflow = cell->found != 0;
    for (float* flag : raised)
      if (flag && (raises_for_noted ? noted_one : overflow)) *flag = 1;
    if (!completes) return;
    ++cell->checks;
    if (overflow || cell->any != 0) cell->state.move(rule, overflow);
    if (overflow) {
      ++cell->overflows;
      cell->first_nonfinite = cell->first;
    }
    cell->found = cell->any = 0;
    cell->first = optim::NonfiniteLocation::kNone;
    *scale32 = static_cast<float>(cell->state.scale);
    *scale64 = cell->state.scale;
  }
};

/** Runs a call on a device. */
using ScaleKernel = void (*)(const ScaleCall& call, Device device);
/** Returns the kernel of a kind of device, for use or registration. */
MZ_API ScaleKernel& scale_kernel(DeviceKind kind);

}  // namespace mezzo::amp
