// Shared parts of the recurrent kernels: sequences and their order on the device, row moves between
// the two orders, products over packed rows.
#pragma once

#include <vector>

#include "../../../tensor/memory/transfer.h"
#include "../../../tensor/ops/recurrent/recurrent_plan.h"
#include "../../blas/product.h"
#include "../lines.h"
#include "../move.h"

namespace mezzo::gpu {

/** The sequence plan and its lookup tables on the device. Without padding both orders are the same,
 *  and there are no tables. */
struct Sequences : op::SequencePlan {
  const std::int64_t* order = nullptr;        // index in the batch of packed sequence i
  const std::int64_t* tensor_rows = nullptr;  // row in [T, N, ..] of each packed row
  const std::int64_t* actives = nullptr;      // active(time) and offset(time) of each time
  const std::int64_t* offsets = nullptr;

  Sequences(std::int64_t num_steps, std::int64_t num_sequences, const op::RecurrentAttrs& attrs,
            Device device)
      : SequencePlan(num_steps, num_sequences, attrs) {
    if (full) return;
    std::vector<std::int64_t> table;
    for (std::int64_t i = 0; i < batch; ++i) table.push_back(sequence(i));
    for (std::int64_t time = 0; time < steps; ++time)
      for (std::int64_t i = 0; i < active(time); ++i) table.push_back(tensor_row(time, i));
    for (std::int64_t time = 0; time < steps; ++time) table.push_back(active(time));
    for (std::int64_t time = 0; time < steps; ++time) table.push_back(offset(time));
    const auto bytes = static_cast<std::int64_t>(table.size() * sizeof(std::int64_t));
    table_ = workspace(bytes, device);
    upload(table_, table.data(), static_cast<std::size_t>(bytes));
    order = static_cast<const std::int64_t*>(table_.raw_data());
    tensor_rows = order + batch;
    actives = tensor_rows + rows;
    offsets = actives + steps;
  }

 private:
  Tensor table_;
};

/** Returns workspace of a shape and dtype. */
inline Tensor work_tensor(const Shape& shape, DType dtype, Device device) {
  const CategoryScope scope(MemoryCategory::workspace);
  return empty_tensor(shape, dtype, device);
}

/** A copy of rows of n elements. `map` gives the row number in the other order; null: the same. */
struct RowMove {
  Array from;  // absent: zeros
  Array to;
  std::int64_t rows, n;
  const std::int64_t* map = nullptr;
  bool scatters = false;          // `map` refers to `to`, else to `from`
  std::int64_t first = 0;         // added to all row numbers of the other order
  std::int64_t turned_batch = 0;  // if not 0: reverse the order of steps of this many rows

  __device__ std::int64_t other_row(std::int64_t row) const {
    if (map) return map[row];
    return turned_batch == 0 ? row : rows - turned_batch - row + 2 * (row % turned_batch);
  }
};

/** Copies values through C, which is exact for narrower dtypes. */
template <class C>
__global__ void __launch_bounds__(kMoveThreads) rows_kernel(const RowMove __grid_constant__ move) {
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * kMoveThreads + threadIdx.x;
  if (index >= move.rows * move.n) return;
  std::int64_t column;
  const std::int64_t row = divided(index, move.n, column);
  const std::int64_t other = (move.other_row(row) + move.first) * move.n + column;
  const C value = move.from.data ? move.from.load<C>(move.scatters ? index : other) : C(0);
  move.to.store<C>(move.scatters ? other : index, value);
}

template <class C> void move_rows(const RowMove& move, runtime::Stream stream) {
  launch(&rows_kernel<C>,
         {.blocks = blocks_for(move.rows * move.n, kMoveThreads), .threads = kMoveThreads}, stream,
         move);
}

/** Returns rows of a row-major matrix as an operand of a product. */
inline op::MatrixBatch matrix(const Tensor& x, std::int64_t columns, std::int64_t first_row = 0) {
  const std::int64_t offset = first_row * columns * static_cast<std::int64_t>(item_size(x.dtype()));
  return {static_cast<char*>(x.raw_data()) + offset, x.dtype(), columns, 1};
}
inline Array rows_from(std::int64_t first_row, const Tensor& x, std::int64_t columns) {
  Array rows(x);
  rows.data = matrix(x, columns, first_row).data;
  return rows;
}
/** Returns a weight of any strides as an operand of a product. */
inline op::MatrixBatch weight_matrix(const Tensor& x) {
  return {x.raw_data(), x.dtype(), x.strides()[0], x.strides()[1]};
}
inline op::MatrixBatch transposed(const op::MatrixBatch& x) {
  return {x.data, x.dtype, x.column, x.row};
}

}  // namespace mezzo::gpu
