// Running products and their adjoint in public ops, by doubling: log2(n) multiplications of shifted tensors, no division, any order of derivative.
// Sees: the public ops.
// Read next: scan.cpp, statistics.cpp.
#pragma once

#include "../../tensor/tensor.h"

namespace mezzo {

/** x moved by `steps` places along dim (negative: towards the start); `fill` where nothing moves in. */
Tensor shifted(const Tensor& x, int dim, std::int64_t steps, double fill);

/** y[k] = product of all x before k, or with `from_end` of all x behind k. */
Tensor product_before(const Tensor& x, int dim, bool from_end = false);

/** t[k] = g[k] + x[k+1] * t[k+1]. */
Tensor backward_recurrence(const Tensor& g, const Tensor& x, int dim);

}  // namespace mezzo
