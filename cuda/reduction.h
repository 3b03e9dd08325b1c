// Reduction: how a kernel is to reduce some dimensions of a tensor: which elements make a result, and which threads add them up.
// Sees: axes.h, runtime.h; parsed by nvcc too.
// Read next: reduction.cpp, kernels/reduce.h (the kernels).
#pragma once

#include "axes.h"
#include "runtime.h"

namespace mezzo::gpu {

inline constexpr int kReduceThreads = 256;

/** The plan follows from the shape alone, so the order of additions and every bit of the results do too, whatever the strides. */
struct Reduction {
  const void* data = nullptr;
  DType dtype = DType::f32;
  Axes kept, reduced;  // results in row-major order; the elements of each in row-major order
  // A block holds `slots` results, `parts` threads for each.
  int slots = 1, parts = kReduceThreads;
  bool across = false;  // neighbouring threads work on neighbouring results, else on neighbouring elements of one
  // Long reductions are cut into chunks, each a block's work; a second kernel joins their states.
  std::int64_t chunks = 1, chunk_length = 0;

  std::int64_t results() const { return kept.count; }
  std::int64_t blocks() const { return (results() + slots - 1) / slots * chunks; }
};

/** Reduces the dimensions of x in `dims` (bit i: dimension i). */
Reduction reduction_of(const Tensor& x, std::uint32_t dims);

/** Uninitialised device memory for as long as the tensor lives, counted as work space. */
Tensor workspace(std::int64_t bytes, Device device);

}  // namespace mezzo::gpu
