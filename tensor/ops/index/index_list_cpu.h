// Preparation of operands for index kernels: checked index tensors in row-major i64, and outputs
// that start as copies.
#pragma once

#include <string_view>
#include <vector>

#include "../../core/op.h"

namespace mezzo::cpu_kernels {

/** The indexed tensor, for error messages. */
struct IndexTarget {
  std::string_view op;
  const Tensor& x;
  int dim = 0;            // of x
  std::int64_t size = 0;  // valid indices are 0..size-1
};

/** Returns the index as row-major i64, detached. Errors: IndexError naming the first element
 *  outside 0..size-1, its position and its value. */
Tensor checked_indices(const Tensor& index, const IndexTarget& target);

/** Returns the same for indices in -size..size-1, where negative values count from the end; the
 *  result has no negative values. */
Tensor wrapped_indices(const Tensor& index, const IndexTarget& target);

/** Returns a tensor of rank 0 with rank 1, and any other unchanged; detached. */
Tensor at_least_1d(const Tensor& x);

/** Copies and converts the elements. For use in kernels: does not increment the version. */
void copy_values(const Tensor& from, const Tensor& to);

/** Copies x to `out` before a kernel changes some elements; does nothing if the op runs in
 *  place. */
void start_from(const Tensor& x, const Tensor& out);

/** Returns the offsets of all elements of a tensor with these sizes and strides, in row-major
 *  order. */
std::vector<std::int64_t> offset_table(std::span<const std::int64_t> sizes,
                                       std::span<const std::int64_t> strides);

}  // namespace mezzo::cpu_kernels
