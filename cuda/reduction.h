// Reduction: how a kernel is to reduce some dimensions of a tensor: which elements make a result, and which threads add them up.
// Sees: axes.h, lines.h; parsed by nvcc too.
// Read next: reduction.cpp, kernels/reduce.h (the kernels).
#pragma once

#include "axes.h"
#include "lines.h"

namespace mezzo::gpu {

/** The plan follows from the shape alone, so the order of additions and every bit of the results do too, whatever the strides. */
struct Reduction {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Axes kept, reduced;  // results in row-major order; the elements of each in row-major order
  Spread spread = {};
  // Long reductions are cut into chunks, each a block's work; a second kernel joins their states.
  std::int64_t chunks = 1, chunk_length = 0;

  std::int64_t results() const { return kept.count; }
  std::int64_t blocks() const { return (results() + spread.slots - 1) / spread.slots * chunks; }
};

/** Reduces the dimensions of x in `dims` (bit i: dimension i). */
Reduction reduction_of(const Tensor& x, std::uint32_t dims);
}  // namespace mezzo::gpu
