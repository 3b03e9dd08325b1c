// Chapter 4 of the tour: gradients below the smallest f16, and the loss scale that saves them.
#pragma once

#include <vector>

#include "guide.h"

namespace samples::tour {

/** One gradient, stored in f16 with and without a loss scale. */
struct SmallGradient {
  double exact = 0;      // the gradient
  double in_f16 = 0;     // stored in f16
  double scale = 0;      // the loss scale
  double scaled = 0;     // exact * scale, stored in f16
  double recovered = 0;  // scaled / scale, calculated in f32
};

/** A backward pass of the small net at O1 with the loss scale 2^exponent. */
struct ScaleTrial {
  int exponent = 0;
  double zero = 0;      // share of the weight gradients that are 0 and are not in f32
  double infinite = 0;  // share that are inf or nan
  double error = 0;     // largest error, as a share of the largest gradient; inf if one is inf
};

/** What chapter 4 claims. */
struct UnderflowFinding {
  double smallest = 0;  // the smallest f16 above 0
  SmallGradient gradient;
  double loss_factor = 0;                   // the loss of the small net is multiplied by it
  std::vector<ScaleTrial> trials;           // ascending exponents
  int first_complete = 0, last_finite = 0;  // exponents of the window: nothing is 0, nothing inf
  int first_exact = 0;                      // from here to last_finite the error is the same
  double start = 0, settled = 0;            // the dynamic scale before and after it fell
  int skipped = 0;                          // steps that it skipped meanwhile
};

/** Returns the gradients of all weights of the small net, its loss multiplied by `factor`, at a
 *  level with a static loss scale; they are unscaled. */
std::vector<double> small_net_gradients(const char* level, double scale, double factor);
/** Returns the share of gradients that are 0 where those of `reference` are not. */
double share_lost(const std::vector<double>& gradients, const std::vector<double>& reference);

/** Calculates the numbers of chapter 4. */
UnderflowFinding find_underflow();
/** Prints chapter 4. */
void tell_underflow(Guide& guide);

}  // namespace samples::tour
