// Adam over plain arrays, the baseline for the fused optimizers.
#pragma once

#include <cstdint>

namespace samples {

/** Updates n weights with PyTorch's defaults, on one thread. `step` counts from 1. */
void bare_adam(std::int64_t n, float* p, const float* g, float* m, float* v, std::int64_t step);

}  // namespace samples
