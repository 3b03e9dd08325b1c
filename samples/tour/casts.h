// Chapter 6 of the tour: which op runs in which type, and why.
#pragma once

#include <mezzo.h>

#include <map>
#include <string>
#include <vector>

#include "guide.h"

namespace samples::tour {

/** An op of the small block, and the dtype in which it runs at a level: that of its first input
 *  after casts. */
struct OpRun {
  std::string op, tag;
  mezzo::DType at_o1 = mezzo::f32, at_o2 = mezzo::f32;
};

/** What chapter 6 claims. */
struct CastsFinding {
  std::map<std::string, int> public_ops;      // tag -> number of ops
  std::vector<OpRun> ops;                     // in the order in which they run
  std::vector<mezzo::amp::CastEntry> o1, o2;  // the casts of a forward pass, by amp::trace
  std::string banned;                         // the error of a banned op at O1
  double loss_f32 = 0;                        // of the banned op in f32
  double loss_o1 = 0;                         // of the op that replaces it, at O1
  double probability = 0;                     // a small one
  double slope_f32 = 0, slope_f16 = 0;        // the gradient of log(p) there
};

/** Runs the block of chapter 6. */
CastsFinding find_casts();
/** Prints chapter 6. */
void tell_casts(Guide& guide);

}  // namespace samples::tour
