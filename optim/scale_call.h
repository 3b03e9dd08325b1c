// ScaleCall: the end of a deferred step on the device, which counts the step and updates the loss
// scale. Parsed by g++ and by nvcc.
// See also: ../cuda/kernels/deferred.cu (the kernel).
#pragma once

#include "clock.h"
#include "nonfinite_location.h"
#include "scale_rule.h"

namespace mezzo::optim {

/** A loss scale and its counters in device memory. */
struct ScaleCell {
  ScaleState state;
  std::int64_t overflows = 0, moves = 0;                     // checks with an overflow; all checks
  std::int32_t found = 0;                                    // the next check has an overflow
  std::int32_t any = 0;                                      // the next check has gradients
  NonfiniteLocation::Word first = NonfiniteLocation::kNone;  // first location of the next check
  // First location of the latest check with an overflow.
  NonfiniteLocation::Word first_nonfinite = NonfiniteLocation::kNone;
};

/** An overflow flag in device memory, with the location of the first non-finite value. Both
 *  pointers may be null. */
struct OverflowFlag {
  float* raised = nullptr;  // non-zero after an overflow
  NonfiniteLocation::Word* first = nullptr;

  /** Resets the flag and the location. */
  MZ_HD void lower() const {
    if (raised) *raised = 0;
    if (first) *first = NonfiniteLocation::kNone;
  }
};

/** The arguments of the kernel that ends a deferred step. Pointers refer to memory of the device
 *  that runs it. */
struct ScaleCall {
  static constexpr int kMostRaised = 8;

  ClockCall clock = {};  // counts a step first; nothing if its clocks are null
  ScaleCell* cell = nullptr;
  float* scale32 = nullptr;   // receives the scale as f32
  double* scale64 = nullptr;  // receives the scale as f64
  ScaleRule rule = {};
  OverflowFlag noted = {};    // added to the cell
  OverflowFlag lowered = {};  // reset afterwards; may be equal to `noted`
  bool found = false;         // adds an overflow that the host has found
  bool any = false;           // adds that there are gradients
  bool moves = true;          // completes the check: updates the scale and clears the cell's flags
  // Flags to raise if the cell has an overflow; null after the last one.
  float* raised[kMostRaised] = {};

  /** Updates the cell. For one thread. */
  MZ_HD void run_cell() const {
    if (noted.raised && *noted.raised != 0) {
      cell->found = 1;
      if (noted.first && *noted.first < cell->first) cell->first = *noted.first;
    }
    lowered.lower();
    if (found) cell->found = 1;
    if (any) cell->any = 1;
    const bool overflow = cell->found != 0;
    for (float* flag : raised)
      if (flag && overflow) *flag = 1;
    if (!moves) return;
    if (overflow || cell->any != 0) {
      cell->state.move(rule, overflow);
      ++cell->moves;
      if (overflow) ++cell->overflows;
      if (overflow) cell->first_nonfinite = cell->first;
    }
    cell->found = cell->any = 0;
    cell->first = NonfiniteLocation::kNone;
    *scale32 = static_cast<float>(cell->state.scale);
    *scale64 = cell->state.scale;
  }
};

/** The kernel of one kind of device that ends deferred steps. */
struct MZ_API ScaleKernels {
  void (*run)(const ScaleCall& call, Device device) = nullptr;
};
/** Returns the kernel of a kind of device, for use or registration. */
MZ_API ScaleKernels& scale_kernels(DeviceKind kind);

}  // namespace mezzo::optim
