// Shared parts of the recurrent kernels: packed weights, rows of states and inputs.
#pragma once

#include "../device/parallel.h"
#include "../ops/recurrent_plan.h"
#include "convert.h"
#include "gemm_pack.h"
#include "gemm_panels.h"
#include "workspace.h"

namespace mezzo::cpu_kernels {

using op::SequencePlan;

/** Returns the packed rows of x [T, N, c] as a matrix: x's own memory if possible, else a copy in
 *  `room`. */
Matrix packed_rows(const Tensor& x, const SequencePlan& plan, Workspace<char>& room);

/** The right operand of a repeated product: `blocks` packed matrices of `columns` columns each. */
template <class T> class FixedOperand {
 public:
  /** Packs x, whose rows are the operand's columns: block b is rows [b columns, (b + 1)
   *  columns). */
  FixedOperand(const Matrix& x, std::int64_t blocks, std::int64_t columns, std::int64_t depth);

  std::int64_t panels() const { return panels_.count; }
  std::int64_t first_column(std::int64_t panel) const { return panel * kWidth; }
  std::int64_t valid(std::int64_t panel) const { return panels_.valid(panel); }

  /** Computes c[row][column] = the sum over steps of a(row, step) x(step, column) for one panel of
   *  one block; the row stride of c is kWidth. */
  void multiply(const RowPanels<T>& rows, const T* a, std::int64_t block, std::int64_t panel,
                T* c) const {
    const T* b = room_.data() + (block * panels_.count + panel) * kWidth * depth_;
    const int vectors = panels_.vectors_of(panel);
    for (std::int64_t p = 0; p < rows.count; ++p)
      multiply_block<T>(
          rows.height_of(p), vectors, depth_, {a + p * rows.height * depth_, 1, rows.height_of(p)},
          {b, panels_.packed_width(panel)}, c + p * rows.height * kWidth, kWidth, false);
  }

  static constexpr std::int64_t kWidth = RegisterBlock<T>::kColumns;

 private:
  ColumnPanels<T> panels_;
  std::int64_t depth_;
  Workspace<T> room_;
};

/** Packs rows [0, n) of a row-major matrix as a left operand. */
template <class T> RowPanels<T> pack_rows(const T* x, std::int64_t n, std::int64_t depth, T* to) {
  const RowPanels<T> panels(n);
  for (std::int64_t p = 0; p < panels.count; ++p)
    pack_panel({x + p * panels.height * depth, dtype_of<T>(), depth, 1}, panels.height_of(p), depth,
               panels.height_of(p), to + p * panels.height * depth);
  return panels;
}

/** Loads the state rows [sequence i][n] of a tensor [N, n]; zeros if it is undefined. */
template <class T>
void load_state(const Tensor& x, const SequencePlan& plan, std::int64_t n, T* to);
/** Stores state rows to a tensor [N, n]. */
template <class T>
void store_state(const T* from, const SequencePlan& plan, std::int64_t n, const Tensor& x);

/** Rounds n values to the dtype. */
template <class T> void round_to(DType dtype, T* x, std::int64_t n) {
  if (dtype == dtype_of<T>()) return;
  constexpr std::int64_t kRun = 64;
  std::uint16_t narrow[kRun];
  for (std::int64_t at = 0; at < n; at += kRun) {
    const std::int64_t run = std::min(kRun, n - at);
    convert(dtype_of<T>(), x + at, dtype, narrow, run);
    convert(dtype, narrow, dtype_of<T>(), x + at, run);
  }
}

/** Returns the address of row `row` of a row-major tensor with n elements per row. */
inline char* row_address(const Tensor& x, std::int64_t row, std::int64_t n) {
  return static_cast<char*>(x.raw_data()) +
         row * n * static_cast<std::int64_t>(item_size(x.dtype()));
}

inline Matrix matrix_of(const Tensor& x) {
  return {x.raw_data(), x.dtype(), x.strides()[0], x.strides()[1]};
}

}  // namespace mezzo::cpu_kernels
