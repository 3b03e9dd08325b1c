// Axes: sizes and strides of some dimensions of a tensor, for kernels. Parsed by g++ and by nvcc.
#pragma once

#include "../../tensor/core/tensor.h"

namespace mezzo::gpu {

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

}  // namespace mezzo::gpu
