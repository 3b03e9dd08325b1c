// Packing of the operands of a matrix product into the order in which the register blocks read
// them, with widening.
#pragma once

#include <cstdint>

#include "gemm.h"
#include "gemm_factors.h"

namespace mezzo::cpu_kernels {

/** A packed panel: each step has `width` adjacent lanes, and steps are `step` elements apart. */
template <class E> struct PackedPanel {
  PackedPanel(E* first, std::int64_t lanes) : PackedPanel(first, lanes, lanes) {}
  PackedPanel(E* first, std::int64_t lanes, std::int64_t stride)
      : data(first), width(lanes), step(stride) {}

  E* data;
  std::int64_t width, step;
};

/** Packs the first `lanes` lanes and `terms` terms of x: lane `lane` of a step holds the factors of
 *  the step's terms of x(lane, term), with zeros after the last term and in the lanes up to the
 *  panel's width. Lanes are rows of A, or columns of B (pass b.transposed()). E is float for f16,
 *  bf16 and f32, double for f64, or BFloat16Pair for bf16, and for f32, which is rounded. */
template <class E>
void pack_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                const PackedPanel<E>& panel);

#if defined(__AVX512BF16__)
/** Writes the pair {first(lane, step), second(lane, step)} for the first `lanes` lanes of each
 * step, and zeros into the lanes up to the panel's width. `second` has the type and the strides of
 * `first`; if its data is nullptr, its elements are 0. bf16 or f32, which is rounded. */
void pack_pairs(const Matrix& first, const Matrix& second, std::int64_t lanes, std::int64_t steps,
                const PackedPanel<BFloat16Pair>& panel);
#endif

}  // namespace mezzo::cpu_kernels
