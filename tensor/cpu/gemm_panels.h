// Products of panels: the division of operands into panels, the choice between packed and in-place
// panels, and the computation of a tile of the result.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm.h"
#include "gemm_micro.h"

namespace mezzo::cpu_kernels {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/** The division of the rows of A into panels of equal height, as high as the registers allow. Lines
 *  have whole tiles instead, as far as there are enough rows. */
template <class E> struct RowPanels {
  /** `most`: the most rows of a panel of lines. */
  explicit RowPanels(std::int64_t m, int most = RegisterBlock<E>::kRows) : rows(m) {
    const std::int64_t least = ceil_div(m, RegisterBlock<E>::kRows);
    height = static_cast<int>(kIsLine<E> ? std::min<std::int64_t>(m, most)
                                         : ceil_div(m, std::max<std::int64_t>(least, 1)));
    count = height == 0 ? 0 : ceil_div(m, height);
  }
  int height_of(std::int64_t panel) const {
    return static_cast<int>(std::min<std::int64_t>(height, rows - panel * height));
  }
  std::int64_t rows, count;
  int height;
};

/** The division of the columns of B into panels of one register block's width; the last one has as
 *  many vectors as it needs. */
template <class E> struct ColumnPanels {
  static constexpr std::int64_t kWidth = RegisterBlock<E>::kColumns;
  explicit ColumnPanels(std::int64_t n) : columns(n), count(ceil_div(n, kWidth)) {}
  std::int64_t valid(std::int64_t panel) const {
    return std::min(kWidth, columns - panel * kWidth);
  }
  int vectors_of(std::int64_t panel) const {
    return static_cast<int>(ceil_div(valid(panel), RegisterBlock<E>::kLanes));
  }
  std::int64_t packed_width(std::int64_t panel) const {
    return vectors_of(panel) * RegisterBlock<E>::kLanes;
  }
  /** Returns the number of elements in the packed panels of that many steps. */
  std::int64_t packed_size(std::int64_t steps) const { return count * kWidth * steps; }
  std::int64_t columns, count;
};

/** Depth of one pass, in steps. A column panel of this depth fits the L1 cache, a tile's row panels
 *  the L2 cache. Panels of lines have 16 KB, so that one of each operand fits the L1 cache. */
template <class E>
inline constexpr std::int64_t kDepthBlock = kIsLine<E> ? 512 / static_cast<int>(sizeof(E)) : 512;

/** Returns into how many tasks work is divided that could stay together: a few for each thread.
 *  Must not decide the order of a sum, whose bits do not depend on the number of threads. */
std::int64_t enough_tasks();

/** The panels begin..end-1. */
struct Range {
  std::int64_t begin, end;
};

/** Returns whether the register blocks can read an operand's lanes (rows of A; columns of B, except
 *  lines) in place, without packing. Pairs and lines are read in place if their factors are
 *  adjacent and none is cut off. */
template <class E> bool readable(const Matrix& lanes, std::int64_t terms) {
  constexpr std::int64_t kTerms = Factors<E>::kTerms;
  if constexpr (kTerms > 1)
    return lanes.column == 1 && lanes.row % kTerms == 0 && terms % kTerms == 0 &&
           sizeof(E) == kTerms * sizeof(BFloat16) && lanes.dtype == DType::bf16;
  else
    return lanes.dtype == dtype_of<E>() && lanes.column != 0 &&
           (lanes.row == 1 || lanes.column == 1);
}
/** Returns whether rows of A are read in place as fast as packed ones: rows that are whole pages
 *  apart evict each other from the L1 cache. */
template <class E> bool fast_in_place(const Matrix& rows, std::int64_t terms) {
  constexpr std::int64_t kPage = 4096;
  const auto item = static_cast<std::int64_t>(item_size(rows.dtype));
  return readable<E>(rows, terms) && (rows.row == 1 || rows.row * item % kPage != 0);
}

/** The panels of an operand, packed or in place. */
template <class E> struct Panels {
  const E* data;
  std::int64_t first;     // number of the panel at `data`
  std::int64_t size;      // elements between panels
  std::int64_t begin;     // the first step
  std::int64_t lane = 1;  // elements between lanes
  std::int64_t step = 0;  // elements between steps; 0: the number of lanes of the panel

  /** Returns a panel's rows from step `from` on; a packed panel has `width` of them. */
  BlockRows<E> rows_of(std::int64_t panel, std::int64_t width, std::int64_t from = 0) const {
    return {at(panel, width, from), lane, step_of(width)};
  }
  /** Returns a panel's columns from step `from` on; a packed panel has `width` of them. */
  BlockColumns<E> columns_of(std::int64_t panel, std::int64_t width, std::int64_t from = 0) const {
    return {at(panel, width, from), step_of(width)};
  }

 private:
  std::int64_t step_of(std::int64_t width) const { return step == 0 ? width : step; }
  const E* at(std::int64_t panel, std::int64_t width, std::int64_t from) const {
    return data + (panel - first) * size + (begin + from) * step_of(width);
  }
};

/** Returns the panels of `height` rows of an operand that is readable(), without packing it. Steps
 *  are counted from step `begin`. */
template <class E>
Panels<E> panels_in_place(const Matrix& lanes, std::int64_t height, std::int64_t begin) {
  const std::int64_t lane = lanes.row / Factors<E>::kTerms;
  return {static_cast<const E*>(lanes.data), 0, height * lane, begin, lane, lanes.column};
}

/** Both operands of a product. */
template <class E> struct Operands {
  RowPanels<E> rows;
  ColumnPanels<E> columns;
  Panels<E> a, b;
};

/** Computes the part of c = a b in the given panels, summing over `depth` steps. c and the addend
 *  start at row 0, column 0. */
template <class E>
void multiply_tile(const Operands<E>& x, Range row_panels, Range column_panels, std::int64_t depth,
                   const MatrixOut& c, const Epilogue& epilogue);

/** Writes alpha * sum + beta * addend to the n elements of row i of c that begin at column j.
 *  `sums` may be the same memory. */
template <class T>
void finish_row(T* sums, std::int64_t i, std::int64_t j, std::int64_t n, const MatrixOut& c,
                const Epilogue& epilogue);

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
