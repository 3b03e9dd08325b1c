// The baselines of single operations: Eigen's matrix product, and Adam over plain arrays, both on
// one thread. Compiled with the flags of the library's kernels.
#pragma once

#include <cstdint>

namespace samples {

/** Computes c = a b for row-major n x n matrices. */
void eigen_matmul(const float* a, const float* b, float* c, std::int64_t n);

/** Updates n weights with PyTorch's defaults, on one thread. `step` counts from 1. */
void bare_adam(std::int64_t n, float* p, const float* g, float* m, float* v, std::int64_t step);

}  // namespace samples
