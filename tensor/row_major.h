// row_major: what a kernel that walks through memory in order is given in place of any tensor.
// Sees: tensor.h; parsed by nvcc too.
// Read next: row_major.cpp, compute_type.h.
#pragma once

#include "tensor.h"

namespace mezzo {

/** x in row-major order on its device: x itself, or a copy; undefined where x is. For kernels: nothing is recorded, cast or traced. */
Tensor row_major(const Tensor& x);

}  // namespace mezzo
