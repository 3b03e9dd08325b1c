// Lines: the lines of a row-major tensor along one dimension, and which threads work on which of them.
// Sees: runtime.h, ../tensor/tensor.h; parsed by nvcc too.
// Read next: lines.cpp, kernels/lines.h (the threads' side), kernels/softmax.cu.
#pragma once

#include "../tensor/row_major.h"
#include "runtime.h"

namespace mezzo::gpu {

/** How a block of threads is spread over lines; all three numbers of threads are powers of 2. */
struct Spread {
  int slots = 1, parts = 1;  // lines of a block, threads for each
  bool across =
      false;  // neighbouring threads work on neighbouring lines, else on neighbouring elements of one
  int threads() const { return slots * parts; }
};
/** The largest block. */
inline constexpr int kSpreadThreads = 256;
Spread spread_over(std::int64_t lines, std::int64_t length, bool across);

/** Element i of line l lies at (l / inner) * length * inner + l % inner + i * inner. */
struct Lines {
  std::int64_t count = 0, length = 1, inner = 1;
  Spread spread = {};
  std::int64_t blocks() const { return (count + spread.slots - 1) / spread.slots; }
};
/** The lines along dimension `dim`; a 0-dim tensor is one line of one element. */
Lines lines_along(const Shape& shape, int dim);
/** The last `rank` dimensions, each set of their elements one line. */
Lines trailing_lines(const Shape& shape, int rank);

/** Uninitialised device memory for as long as the tensor lives, counted as work space. */
Tensor workspace(std::int64_t bytes, Device device);

}  // namespace mezzo::gpu
