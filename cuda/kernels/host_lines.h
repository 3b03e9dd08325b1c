// Lines: the lines of a row-major tensor along one dimension, and their distribution over threads.
// Parsed by g++ and by nvcc.
#pragma once

#include "../../tensor/core/row_major.h"
#include "../runtime/runtime.h"

namespace mezzo::gpu {

/** Distribution of a block's threads over lines. All three numbers of threads are powers of 2. */
struct Spread {
  int slots = 1, parts = 1;  // lines per block, threads per line
  bool across = false;  // neighbouring threads work on neighbouring lines, else on neighbouring
                        // elements of one line
  int threads() const { return slots * parts; }
};
/** Largest block. */
inline constexpr int kSpreadThreads = 256;
Spread spread_over(std::int64_t lines, std::int64_t length, bool across);

/** Element i of line l has the offset (l / inner) * length * inner + l % inner + i * inner. */
struct Lines {
  std::int64_t count = 0, length = 1, inner = 1;
  Spread spread = {};
  std::int64_t blocks() const { return (count + spread.slots - 1) / spread.slots; }
};
/** Returns the lines along dimension `dim`. A 0-dim tensor is one line of one element. */
Lines lines_along(const Shape& shape, int dim);
/** Returns lines that each cover the last `rank` dimensions. */
Lines trailing_lines(const Shape& shape, int rank);

/** Returns uninitialised device memory, owned by the tensor and counted as workspace. */
Tensor workspace(std::int64_t bytes, Device device);

}  // namespace mezzo::gpu
