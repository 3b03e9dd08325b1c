// Single-threaded Eigen, the baseline for the matrix product. Only eigen_baseline.cpp includes
// Eigen; it is compiled with the library's kernel flags.
#pragma once

#include <cstdint>

namespace samples {

/** Computes c = a b for row-major n x n matrices. */
void eigen_matmul(const float* a, const float* b, float* c, std::int64_t n);

}  // namespace samples
