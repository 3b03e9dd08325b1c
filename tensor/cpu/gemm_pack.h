// Packing of the operands of a matrix product into the order in which the register blocks read
// them, with widening.
#pragma once

#include <cstdint>

#include "gemm.h"

namespace mezzo::cpu_kernels {

/** Writes panel[step * width + lane] = x(lane, step) for the first `lanes` lanes and `depth` steps
 *  of x, and zeros into the lanes up to `width`. Lanes are rows of A, or columns of B (pass
 *  b.transposed()). T is float for f16, bf16 and f32, double for f64. */
template <class T>
void pack_panel(const Matrix& x, std::int64_t lanes, std::int64_t depth, std::int64_t width,
                T* panel);

}  // namespace mezzo::cpu_kernels
