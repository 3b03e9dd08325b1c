// Reduction: the plan of a reduction over some dimensions: elements per result and their
// distribution over threads. Parsed by g++ and by nvcc.
#pragma once

#include "host_axes.h"
#include "host_lines.h"

namespace mezzo::gpu {

/** Plan of a reduction. It depends on the shape alone, and so do the order of additions and every
 *  bit of the results, whatever the strides. */
struct Reduction {
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
Reduction reduction_of(const Tensor& x, std::uint32_t dims);
}  // namespace mezzo::gpu
