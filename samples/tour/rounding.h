// Chapter 2 of the tour: the spacing of f16 numbers, and what an addition loses.
#pragma once

#include <vector>

#include "guide.h"

namespace samples::tour {

/** An addition in f16. */
struct Addition {
  double a = 0, b = 0;  // the operands
  double result = 0;    // a + b in f16
};

/** What a number of f16 does not notice. */
struct Spacing {
  double at = 0;       // a number of f16
  double spacing = 0;  // distance to the next larger one
  double lost = 0;     // the largest power of two p with at + p == at in f16
};

/** What chapter 2 claims. */
struct RoundingFinding {
  std::vector<Addition> additions;
  std::vector<Spacing> spacings;
  int ones = 0;        // how many ones are added up
  double counted = 0;  // their total when each sum is rounded to f16
  double summed = 0;   // their total by sum()
};

/** Calculates the numbers of chapter 2. */
RoundingFinding find_rounding();
/** Prints chapter 2. */
void tell_rounding(Guide& guide);

}  // namespace samples::tour
