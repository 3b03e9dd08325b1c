// Chapter 3 of the tour: the largest f16, and ops whose results exceed it.
#pragma once

#include <string>
#include <vector>

#include "guide.h"

namespace samples::tour {

/** The result of one op on inputs that f16 can store. */
struct OpResult {
  std::string text;                          // "300 * 300"
  std::string op;                            // its name in the op table
  std::string tag;                           // its precision tag
  double in_f16 = 0, in_o1 = 0, in_f32 = 0;  // without casts, with the casts of O1, in f32
};

/** What chapter 3 claims. */
struct OverflowFinding {
  double largest = 0;         // the largest finite f16
  double first_infinite = 0;  // the first whole number that f16 stores as inf
  std::vector<OpResult> ops;
  double mean_of_squares = 0;  // of a layer's outputs at O1
  std::string op, message;     // the op that detect_nonfinite names, and its report
  double with_override = 0;    // the same mean with that op in f32
};

/** Calculates the numbers of chapter 3. */
OverflowFinding find_overflow();
/** Prints chapter 3. */
void tell_overflow(Guide& guide);

}  // namespace samples::tour
