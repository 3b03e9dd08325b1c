// Adam over plain arrays, the yardstick of the fused optimizers.
// Sees: the standard library.
// Read next: mixed.cpp.
#pragma once

#include <cstdint>

namespace samples {

/** One update of n weights with PyTorch's defaults, on one thread; `step` counts from 1. */
void bare_adam(std::int64_t n, float* p, const float* g, float* m, float* v, std::int64_t step);

}  // namespace samples
