// Shared parts of the recurrent kernels: packed weights, rows of states and inputs.
#pragma once

#include "../../cpu/convert.h"
#include "../../cpu/gemm_pack.h"
#include "../../cpu/gemm_panels.h"
#include "../../cpu/gemm_tile.h"
#include "../../cpu/workspace.h"
#include "../../device/parallel.h"
#include "recurrent_plan.h"

namespace mezzo::cpu_kernels {

using op::SequencePlan;

/** Returns the packed rows of x [T, N, c] as a matrix: x's own memory if possible, else a copy in
 *  `room`. */
Matrix packed_rows(const Tensor& x, const SequencePlan& plan, Workspace<char>& room);

/** The right operand of a repeated product: `blocks` packed matrices of `columns` columns each. */
template <class E> class FixedOperand {
 public:
  /** Packs x, whose rows are the operand's columns: block b is rows [b columns, (b + 1) columns).
   *  Sums have `terms` terms. */
  FixedOperand(const Matrix& x, std::int64_t blocks, std::int64_t columns, std::int64_t terms);

  std::int64_t panels() const { return panels_.count; }
  std::int64_t first_column(std::int64_t panel) const { return panel * kWidth; }
  std::int64_t valid(std::int64_t panel) const { return panels_.valid(panel); }

  /** Computes c[row][column] = the sum over terms of a(row, term) x(term, column) for one panel of
   *  one block, where a is packed by pack_rows(); the row stride of c is kWidth. */
  void multiply(const RowPanels<E>& rows, const E* a, std::int64_t block, std::int64_t panel,
                SumOf<E>* c) const {
    const E* b = room_.data() + (block * panels_.count + panel) * kWidth * depth_;
    const int vectors = panels_.vectors_of(panel);
    const TileScope<E> scope;
    for (std::int64_t p = 0; p < rows.count; ++p)
      multiply_block<E>(
          rows.height_of(p), vectors, depth_, {a + p * rows.height * depth_, 1, rows.height_of(p)},
          {b, panels_.packed_width(panel)}, c + p * rows.height * kWidth, kWidth, false);
  }

  static constexpr std::int64_t kWidth = RegisterBlock<E>::kColumns;

 private:
  ColumnPanels<E> panels_;
  std::int64_t depth_;  // steps
  Workspace<E> room_;
};

/** Packs rows [0, n) of a row-major matrix with `terms` columns as a left operand; pairs and
 *  lines round. */
template <class E>
RowPanels<E> pack_rows(const SumOf<E>* x, std::int64_t n, std::int64_t terms, E* to) {
  const RowPanels<E> panels(n);
  for (std::int64_t p = 0; p < panels.count; ++p)
    pack_row_panel({x + p * panels.height * terms, dtype_of<SumOf<E>>(), terms, 1},
                   panels.height_of(p), terms,
                   PackedPanel(to + p * panels.height * steps_of<E>(terms), panels.height_of(p)));
  return panels;
}

/** Returns row-major values as an operand of gemm() next to operands of E: themselves, or for pairs
 *  and lines a copy rounded to bf16 in `room`. */
template <class E>
Matrix product_operand(const SumOf<E>* x, std::int64_t rows, std::int64_t columns,
                       Workspace<BFloat16>& room) {
  if constexpr (!kRounds<E>) {
    return {x, dtype_of<E>(), columns, 1};
  } else {
    room = Workspace<BFloat16>(rows * columns);
    narrow(x, room.data(), rows * columns);
    return {room.data(), DType::bf16, columns, 1};
  }
}

/** Loads the state rows [sequence i][n] of a tensor [N, n]; zeros if it is undefined. */
template <class T>
void load_state(const Tensor& x, const SequencePlan& plan, std::int64_t n, T* to);
/** Stores state rows to a tensor [N, n]. */
template <class T>
void store_state(const T* from, const SequencePlan& plan, std::int64_t n, const Tensor& x);

/** Returns the address of row `row` of a row-major tensor with n elements per row. */
inline char* row_address(const Tensor& x, std::int64_t row, std::int64_t n) {
  return static_cast<char*>(x.raw_data()) +
         row * n * static_cast<std::int64_t>(item_size(x.dtype()));
}

inline Matrix matrix_of(const Tensor& x) {
  return {x.raw_data(), x.dtype(), x.strides()[0], x.strides()[1]};
}

}  // namespace mezzo::cpu_kernels
