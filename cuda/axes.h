// Axes: some dimensions of a tensor as a kernel walks over them: sizes, strides, and where element number i of them lies.
// Sees: ../tensor/tensor.h; parsed by nvcc too.
// Read next: reduction.h, lines.h (who splits a tensor into axes).
#pragma once

#include "../tensor/tensor.h"

namespace mezzo::gpu {

struct Axes {
  int rank = 0;
  std::int64_t count = 1;  // elements
  std::int64_t sizes[Shape::kMaxRank] = {};
  std::int64_t strides[Shape::kMaxRank] = {};  // in elements of the tensor

  /** Adds a dimension inside of those that are there, as one with the last where they run on into each other. */
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
