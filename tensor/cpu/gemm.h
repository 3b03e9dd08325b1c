// gemm: the matrix product used by all matrix ops, for any strides and floating dtypes, with an
// optional addend.
#pragma once

#include <cstdint>
#include <optional>

#include "../core/dtype.h"

namespace mezzo {
class Storage;
}

namespace mezzo::cpu_kernels {

/** A matrix in memory: element (i, j) is at offset i * row + j * column, in elements, from `data`.
 *  Strides may be 0. */
struct Matrix {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row = 0, column = 0;
  Storage* weight = nullptr;  // of a right operand of which packed copies may be kept

  Matrix transposed() const { return {data, dtype, column, row, weight}; }
};

/** Returns the part of the matrix that starts at the given element. */
template <class M> M from(const M& x, std::int64_t row, std::int64_t column) {
  M rest = x;
  const std::int64_t bytes =
      (row * x.row + column * x.column) * static_cast<std::int64_t>(item_size(x.dtype));
  if (x.data) rest.data = const_cast<char*>(static_cast<const char*>(x.data)) + bytes;
  return rest;
}

/** The computation on a finished sum before its single rounding: alpha * sum + beta * addend, in
 *  f32 (f64). */
struct Epilogue {
  double alpha = 1;
  double beta = 0;
  Matrix addend = {};  // read only if beta is not 0; may be the result's own memory

  Epilogue transposed() const { return {alpha, beta, addend.transposed()}; }
};

/** The result matrix. */
struct MatrixOut {
  void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t row = 0, column = 1;
  /** The 16-bit dtype to which results are rounded before they are stored in f32. */
  std::optional<DType> rounds_to = {};

  MatrixOut transposed() const { return {data, dtype, column, row, rounds_to}; }
};

/** Computes c = alpha * a b + beta * addend, where a is m x k and b is k x n. Sums run over all of
 *  k in f32 (f64 if the result is f64), followed by one rounding. Products of two bf16 operands use
 *  the CPU's instructions for them unless exact_products(). k = 0 gives zero sums. The bits do not
 *  depend on the number of threads. */
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const Matrix& a, const Matrix& b,
          const MatrixOut& c, const Epilogue& epilogue = {});

}  // namespace mezzo::cpu_kernels
