// Chapter 7 of the tour: bf16, which has the range of f32 and fewer digits than f16.
#pragma once

#include <vector>

#include "guide.h"
#include "masters.h"

namespace samples::tour {

/** A number stored in both 16-bit types. */
struct InBoth {
  double wanted = 0, in_f16 = 0, in_bf16 = 0;
};

/** What the small net does at O1 or O4, compared with f32. */
struct NetInType {
  double gradients_lost = 0;  // share that is 0 with loss scale 1 and the loss times 1e-8
  double large_output = 0;    // its first output for inputs times 1e6
  double output_error = 0;    // largest error of its outputs over the largest output
};

/** What chapter 7 claims. */
struct BfloatFinding {
  std::vector<InBoth> numbers;
  double large_output = 0;  // of the small net in f32, for inputs times 1e6
  NetInType o1, o4;
  double update = 0;                  // of the weights below
  int steps = 0;                      // number of updates
  SteppedWeight half, bare, masters;  // at O3, and at O5 without and with masters
};

/** Calculates the numbers of chapter 7. */
BfloatFinding find_bfloat();
/** Prints chapter 7. */
void tell_bfloat(Guide& guide);

}  // namespace samples::tour
