// ScaleCall: what a device does at the end of a step that nobody waits for: counts it, and moves the loss scale.
// Sees: bad_value.h, clock.h, scale_rule.h. Parsed by g++ and by nvcc.
// Read next: ../amp/device_scale.h (who makes the calls), ../cuda/kernels/deferred.cu.
#pragma once

#include "bad_value.h"
#include "clock.h"
#include "scale_rule.h"

namespace mezzo::optim {

/** A scale on its device. */
struct ScaleCell {
  ScaleState state;
  std::int64_t overflows = 0, moves = 0;   // checks with an overflow, checks
  std::int32_t found = 0;                  // an overflow of the check to come
  std::int32_t any = 0;                    // there is something to check
  BadValue::Word first = BadValue::kNone;  // of the check to come
  BadValue::Word culprit =
      BadValue::kNone;  // of the latest check with an overflow: the first of its bad values
};

/** A flag in the memory of a device, and the first bad value that has raised it; either may be null. */
struct OverflowFlag {
  float* raised = nullptr;
  BadValue::Word* first = nullptr;

  MZ_HD void lower() const {
    if (raised) *raised = 0;
    if (first) *first = BadValue::kNone;
  }
};

/** What a device does at the end of a deferred step, in one launch. Pointers lead to its memory. */
struct ScaleCall {
  static constexpr int kMostRaised = 8;

  ClockCall clock = {};  // counts a step first, unless it has no clocks
  ScaleCell* cell = nullptr;
  float* scale32 = nullptr;  // the scale, as tensors multiply by it
  double* scale64 = nullptr;
  ScaleRule rule = {};
  OverflowFlag noted = {};          // is noted in the cell
  OverflowFlag lowered = {};        // is 0 afterwards; may be the same
  bool found = false, any = false;  // what the host knows to be noted besides
  bool moves = true;                // lets the scale move by what is noted
  float* raised[kMostRaised] =
      {};  // flags to raise on an overflow that is noted now or was; those behind the last are null

  /** The cell's part, for one thread. */
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
      if (overflow) cell->culprit = cell->first;
    }
    cell->found = cell->any = 0;
    cell->first = BadValue::kNone;
    *scale32 = static_cast<float>(cell->state.scale);
    *scale64 = cell->state.scale;
  }
};

/** The kernel of a kind of device. */
struct MZ_API ScaleKernels {
  void (*run)(const ScaleCall& call, Device device) = nullptr;
};
MZ_API ScaleKernels& scale_kernels(DeviceKind kind);

}  // namespace mezzo::optim
