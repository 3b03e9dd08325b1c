// bench --micro: what mixed precision itself costs.
// Sees: micro.h.
// Read next: mixed.cpp.
#pragma once

#include "micro.h"

namespace samples {

/** Ratios of times, measured in turns; takes a few seconds. */
void measure_mixed_precision(MicroResults& results);

}  // namespace samples
