// gemm: the one matrix product that everything uses: any strides, any floating dtype, what is added to the product included.
// Sees: dtype.h.
// Read next: gemm.cpp (the cut into panels and tiles), gemm_micro.h (the arithmetic).
#pragma once

#include <cstdint>

#include "../dtype.h"

namespace mezzo::cpu_kernels {

/** A matrix in memory: element (i, j) lies i * row + j * column elements behind `data`. Strides may be 0. */
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row = 0, column = 0;

  Matrix transposed() const { return {data, dtype, column, row}; }
};

/** What happens to a finished sum before its single rounding: alpha * sum + beta * addend, in f32 (f64). */
struct Epilogue {
  double alpha = 1;
  double beta = 0;
  Matrix addend = {};  // read only where beta is not 0; may be the very elements of the result
};

/** Where the result goes. */
struct MatrixOut {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row = 0, column = 1;
};

/** c = alpha * a b + beta * addend, with a of m x k, b of k x n. Sums run in f32 (f64 when the result is f64) over the whole of k, then one
 *  rounding. k = 0 gives zero sums. The same bits for any number of threads. */
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a, const Matrix& b,
          const MatrixOut& c, const Epilogue& epilogue = {});

}  // namespace mezzo::cpu_kernels
