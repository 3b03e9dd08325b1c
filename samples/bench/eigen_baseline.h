// Plain single-threaded Eigen, the yardstick of the matrix product.
// Sees: the standard library; Eigen stays in eigen_baseline.cpp, compiled with the library's kernel flags.
// Read next: micro.h.
#pragma once

#include <cstdint>

namespace samples {

/** c = a b for row-major n x n matrices. */
void eigen_matmul(const float* a, const float* b, float* c, std::int64_t n);

}  // namespace samples
