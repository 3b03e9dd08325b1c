// Packing of the operands of a matrix product into the order in which the register blocks read
// them, with widening.
#pragma once

#include <cstdint>

#include "gemm.h"
#include "gemm_factors.h"

namespace mezzo::cpu_kernels {

/** Packs the first `lanes` lanes and `terms` terms of x: element panel[step * width + lane] holds
 *  the factors of the step's terms of x(lane, term), with zeros after the last term and in the
 *  lanes up to `width`. Lanes are rows of A, or columns of B (pass b.transposed()). E is float for
 *  f16, bf16 and f32, double for f64, or BFloat16Pair for bf16, and for f32, which is rounded. */
template <class E>
void pack_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms, std::int64_t width,
                E* panel);

#if defined(__AVX512BF16__)
/** Writes panel[step * width + lane] = {first(lane, step), second(lane, step)} for the first
 * `lanes` lanes, and zeros into the lanes up to `width`. `second` has the type and the strides of
 * `first`; if its data is nullptr, its elements are 0. bf16 or f32, which is rounded. */
void pack_pairs(const Matrix& first, const Matrix& second, std::int64_t lanes, std::int64_t steps,
                std::int64_t width, BFloat16Pair* panel);
#endif

}  // namespace mezzo::cpu_kernels
