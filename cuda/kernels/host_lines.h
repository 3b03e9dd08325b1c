// Axes, Lines and ReductionPlan: dimensions of a tensor, its lines along one of them, and the plan
// of a reduction, each with the distribution over threads. Parsed by g++ and by nvcc.
#pragma once

#include "../../tensor/core/row_major.h"
#include "../../tensor/core/tensor.h"
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

/** Sizes and strides of some dimensions, adjacent ones merged where possible. */
struct Axes {
  int rank = 0;
  std::int64_t count = 1;  // elements
  std::int64_t sizes[Shape::kMaxRank] = {};
  std::int64_t strides[Shape::kMaxRank] = {};  // in elements of the tensor

  /** Appends an innermost dimension. Merges it with the last one if the strides allow it. */
  void push(std::int64_t size, std::int64_t stride) {
    count *= size;
    if (size == 1) return;
    if (rank > 0 && strides[rank - 1] == size * stride) {
      sizes[rank - 1] *= size;
      strides[rank - 1] = stride;
      return;
    }
    sizes[rank] = size;
    strides[rank++] = stride;
  }
};

/** Plan of a reduction. It depends on the shape alone, and so do the order of additions and every
 *  bit of the results, whatever the strides. */
struct ReductionPlan {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Axes kept, reduced;  // results and the elements of each, both in row-major order
  Spread spread = {};
  // Long reductions are cut into chunks, one per block; a second kernel combines their states.
  std::int64_t chunks = 1, chunk_length = 0;

  std::int64_t results() const { return kept.count; }
  std::int64_t blocks() const { return (results() + spread.slots - 1) / spread.slots * chunks; }
};

/** Returns the plan for the dimensions of x in `dims` (bit i: dimension i). */
ReductionPlan reduction_of(const Tensor& x, std::uint32_t dims);
}  // namespace mezzo::gpu
