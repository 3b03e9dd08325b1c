// Chapter 5 of the tour: updates that are lost beside their weight, and f32 master weights.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "guide.h"

namespace samples::tour {

/** A weight of 1 after steps that add the same update to it. */
struct SteppedWeight {
  std::string level;
  std::string dtype;   // of the model's weight
  double weight = 0;   // the model's
  double updated = 0;  // the number that the optimizer updates: the master, or the weight itself
};

/** Takes `steps` steps of SGD that each add `update` to a weight of 1. `masters` is the option
 *  master_weights of a level that converts the model. */
SteppedWeight step_weight(const std::string& level, double update, int steps, bool masters);

/** One step of Adam on 64 weights at O2 or O3. */
struct AdamStep {
  std::vector<double> before, after;  // the numbers that the optimizer updates
  /** Returns how many numbers changed. */
  std::int64_t changed() const;
};

/** What chapter 5 claims. */
struct MastersFinding {
  double update = 0;
  int steps = 0;
  std::vector<SteppedWeight> weights;  // at O0, O3 and O2
  double lr = 0;                       // of Adam: the size of its first update
  AdamStep bare, with_masters;         // at O3 and O2
};

/** Calculates the numbers of chapter 5. */
MastersFinding find_masters();
/** Prints chapter 5. */
void tell_masters(Guide& guide);

}  // namespace samples::tour
