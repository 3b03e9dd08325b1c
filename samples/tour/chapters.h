// The chapters of the tour, in order.
#pragma once

#include <vector>

#include "guide.h"

namespace samples::tour {

/** A function that prints a chapter. */
using Chapter = void (*)(Guide& guide);

/** Returns the chapters; chapter 1 comes first. */
std::vector<Chapter> chapters();

}  // namespace samples::tour
