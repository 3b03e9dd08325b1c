// Products of panels: how operands are cut into panels, which of them are read where they lie, and how a tile of the result is computed from them.
// Sees: gemm.h, gemm_micro.h.
// Read next: gemm.cpp and conv.cpp (who pack and call), gemm_panels.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gemm.h"
#include "gemm_micro.h"

namespace mezzo::cpu_kernels {

constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/** Cut of the rows of A: panels of equal height, as high as the registers allow. */
template <class T> struct RowPanels {
  explicit RowPanels(std::int64_t m) : rows(m) {
    const std::int64_t least = ceil_div(m, RegisterBlock<T>::kRows);
    height = static_cast<int>(ceil_div(m, std::max<std::int64_t>(least, 1)));
    count = height == 0 ? 0 : ceil_div(m, height);
  }
  int height_of(std::int64_t panel) const {
    return static_cast<int>(std::min<std::int64_t>(height, rows - panel * height));
  }
  std::int64_t rows, count;
  int height;
};

/** Cut of the columns of B: panels of one register block's width, the last one of as many vectors as it needs. */
template <class T> struct ColumnPanels {
  static constexpr std::int64_t kWidth = RegisterBlock<T>::kColumns;
  explicit ColumnPanels(std::int64_t n) : columns(n), count(ceil_div(n, kWidth)) {}
  std::int64_t valid(std::int64_t panel) const { return std::min(kWidth, columns - panel * kWidth); }
  int vectors_of(std::int64_t panel) const {
    return static_cast<int>(ceil_div(valid(panel), Simd<T>::kWidth));
  }
  std::int64_t packed_width(std::int64_t panel) const { return vectors_of(panel) * Simd<T>::kWidth; }
  /** Elements that the packed panels take for k steps. */
  std::int64_t packed_size(std::int64_t k) const { return count * kWidth * k; }
  std::int64_t columns, count;
};

/** Depth of one pass: a column panel of it stays in the first-level cache's reach, a tile's row panels in the second's. */
inline constexpr std::int64_t kDepthBlock = 512;

struct Range {
  std::int64_t begin, end;
};

/** Whether the register blocks can read an operand's lanes (rows of A, columns of B) where they lie, instead of packed. */
template <class T> bool readable(const Matrix& lanes) {
  return lanes.dtype == dtype_of<T>() && lanes.column != 0 && (lanes.row == 1 || lanes.column == 1);
}
/** Whether rows of A are not only readable but read as fast as packed ones: rows whole pages apart push each other out of the first-level cache. */
template <class T> bool reads_well(const Matrix& rows) {
  constexpr std::int64_t kPage = 4096;
  return readable<T>(rows) && (rows.row == 1 || rows.row * static_cast<std::int64_t>(sizeof(T)) % kPage != 0);
}

/** The panels of an operand, packed side by side or where the operand lies. */
template <class T> struct Panels {
  const T* data;
  std::int64_t first;     // number of the panel at `data`
  std::int64_t size;      // elements from one panel to the next
  std::int64_t begin;     // the step to begin with
  std::int64_t lane = 1;  // elements from one lane to the next
  std::int64_t step = 0;  // from one step to the next; 0: as many as the panel has lanes

  /** A panel's rows, or columns, from a step on; `width` of them where it is packed. */
  BlockRows<T> rows_of(std::int64_t panel, std::int64_t width, std::int64_t from = 0) const {
    return {at(panel, width, from), lane, step_of(width)};
  }
  BlockColumns<T> columns_of(std::int64_t panel, std::int64_t width, std::int64_t from = 0) const {
    return {at(panel, width, from), step_of(width)};
  }

 private:
  std::int64_t step_of(std::int64_t width) const { return step == 0 ? width : step; }
  const T* at(std::int64_t panel, std::int64_t width, std::int64_t from) const {
    return data + (panel - first) * size + (begin + from) * step_of(width);
  }
};

/** Both operands of a product. */
template <class T> struct Operands {
  RowPanels<T> rows;
  ColumnPanels<T> columns;
  Panels<T> a, b;
};

/** Computes the part of c = a b that lies in the given panels, summing over `depth` steps. c and the addend start at row 0, column 0. */
template <class T>
void multiply_tile(const Operands<T>& x, Range row_panels, Range column_panels, std::int64_t depth,
                   const MatrixOut& c, const Epilogue& epilogue);

/** Writes alpha * sum + beta * addend into the n elements of row i of c that begin at column j. `sums` may be the very place. */
template <class T>
void finish_row(T* sums, std::int64_t i, std::int64_t j, std::int64_t n, const MatrixOut& c,
                const Epilogue& epilogue);

}  // namespace mezzo::cpu_kernels
