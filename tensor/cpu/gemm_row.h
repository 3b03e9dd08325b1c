// Products of a single row with a matrix, which read every element of the matrix once.
#pragma once

#include <cstdint>

#include "gemm_panels.h"

namespace mezzo::cpu_kernels {

/** Sums of products of one row. */
template <class E> struct RowSums {
  /** Returns the number of sums in the smallest number of vectors with `count` sums. */
  static std::int64_t whole(std::int64_t count) {
    constexpr std::int64_t kLanes = RegisterBlock<E>::kLanes;
    return ceil_div(count, kLanes) * kLanes;
  }

  /** Sets sums[j] to the sum over all terms of row(term) * columns(j, term), for 0 <= j < count.
   *  `row` is packed; the rows of `columns` are the columns of the matrix. Writes whole(count)
   *  sums. A sum has 64 bytes of partial sums, whose halves are then added: step i belongs to
   * number i modulo their count. Neither strides nor the instruction set change that order. */
  static void compute(const E* row, const Matrix& columns, std::int64_t count, std::int64_t terms,
                      SumOf<E>* sums);
};

}  // namespace mezzo::cpu_kernels
