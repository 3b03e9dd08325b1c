// Chapter 1 of the tour: how a number is stored in 16 bits, its neighbours and its error.
#pragma once

#include <mezzo.h>

#include <string>
#include <vector>

#include "guide.h"

namespace samples::tour {

/** A number above 0 as a dtype stores it. */
struct Stored {
  double wanted = 0;            // the number before it was stored
  std::uint16_t bits = 0;       // of the stored number
  double value = 0;             // the stored number
  double below = 0, above = 0;  // the numbers of the dtype next to it
  double relative_error = 0;    // |value - wanted| / wanted
};

/** Stores a number above 0 in f16. */
Stored store_f16(double wanted);
/** Returns the 16 bits of an f16 in three groups: sign, exponent, fraction. */
std::string bits_text(std::uint16_t bits);

/** What chapter 1 claims. */
struct NumberFinding {
  std::vector<Stored> numbers;  // in f16
  double f32_error = 0;         // relative error of the first number in f32
};

/** Stores the numbers of chapter 1. */
NumberFinding find_number();
/** Prints chapter 1. */
void tell_number(Guide& guide);

}  // namespace samples::tour
