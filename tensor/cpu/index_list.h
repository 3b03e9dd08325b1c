// What index kernels start with: index tensors as row-major i64 with every value checked, and operands made ready.
// Sees: op.h.
// Read next: gather.cpp, block_rows.h (their users).
#pragma once

#include <string_view>
#include <vector>

#include "../op.h"

namespace mezzo::cpu_kernels {

/** What an index is into, for the error text. */
struct IndexTarget {
  std::string_view op;
  const Tensor& x;
  int dim = 0;            // of x
  std::int64_t size = 0;  // valid indices are 0..size-1
};

/** The index as row-major i64, outside the graph. Errors: IndexError naming the first element outside 0..size-1, its place and its value. */
Tensor checked_indices(const Tensor& index, const IndexTarget& target);

/** The same, where negative values count from the end (-size..size-1): the result holds none. */
Tensor wrapped_indices(const Tensor& index, const IndexTarget& target);

/** A tensor of rank 0 as one of rank 1, any other as it is; outside the graph. */
Tensor at_least_1d(const Tensor& x);

/** to = from, converted. Part of a kernel: counts no version of its own. */
void copy_values(const Tensor& from, const Tensor& to);

/** Gives `out` the elements of x before a kernel changes some of them; in place they are there already. */
void start_from(const Tensor& x, const Tensor& out);

/** Offsets of all positions of a tensor with these sizes and strides, in row-major order. */
std::vector<std::int64_t> offset_table(std::span<const std::int64_t> sizes,
                                       std::span<const std::int64_t> strides);

}  // namespace mezzo::cpu_kernels
