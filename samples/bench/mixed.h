// bench --micro: the overhead of mixed precision.
#pragma once

#include "micro.h"

namespace samples {

/** Measures ratios of times with interleaved calls, which takes a few seconds. */
void measure_mixed_precision(MicroResults& results);

}  // namespace samples
