// Products by tiles: matrices of 16 rows of 64 bytes that the CPU multiplies at once (Intel's AMX).
// This is the interface to the unit. An instruction set with other tiles replaces gemm_tile.cpp and
// gemm_tile_pack.cpp.
//
// Order of a sum, for operands of bf16: the terms are divided into steps of 32 from term 0 on, the
// last one padded with zeros in both operands. A step has two chains of fused multiply-adds from
// +0, one over its even terms and one over its odd terms. Both are added, then that sum is added to
// the sum of the steps before. Subnormal operands and results count as zero. (Intel 64 and IA-32
// Architectures Software Developer's Manual, TDPBF16PS.) Operands of f16 are sums of two numbers of
// bf16, high and low; a step adds four such sums: high x high, low x high, low x low, high x low.
#pragma once

#include "../ops/conv/conv_micro_cpu.h"
#include "gemm_pack.h"

namespace mezzo::cpu_kernels {

#if defined(__AVX512BF16__)
/** Gives the calling thread's tiles back to their initial state, in which switches between threads
 *  need not save them. */
void release_tiles();
#endif

/** Releases the calling thread's tiles, which multiply_block() and multiply_offsets() configure.
 *  Empty if E is not a line. */
template <class E> class TileScope {
 public:
  TileScope() = default;
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;
  ~TileScope() {
#if defined(__AVX512BF16__)
    if constexpr (kIsLine<E>) release_tiles();
#endif
  }
};

#if defined(__AVX512BF16__)
/** Returns whether products of finite f16 operands use HalfLine, if tiles pay. */
bool multiplies_half_by_parts();
/** Returns whether all elements of a matrix of f16 are finite. */
bool is_finite(const Matrix& x, std::int64_t rows, std::int64_t columns);
#endif

/** Returns whether tiles pay for a product of these sizes: small ones are faster in f32. Decides in
 *  which order sums are added, so it depends on the shape alone. */
constexpr bool tiles_pay(std::int64_t m, std::int64_t n, std::int64_t k) {
  return m >= 8 && n >= 8 && k >= 24 && m * n >= 256;
}

/** Packs rows of a left operand; see pack_panel(). */
template <class E>
void pack_row_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                    const PackedPanel<E>& panel) {
  pack_panel(x, lanes, terms, panel);
}
/** Packs columns of a right operand; see pack_panel(). Lines: a step has the tiles of each vector
 *  of columns, in which a row holds a pair of terms of each column. */
template <class E>
void pack_column_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                       const PackedPanel<E>& panel) {
  pack_panel(x, lanes, terms, panel);
}

#if defined(__AVX512BF16__)
/** Operands of bf16, or of f32, which is rounded. */
template <>
void pack_row_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                    const PackedPanel<BFloat16Line>& panel);
template <>
void pack_column_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                       const PackedPanel<BFloat16Line>& panel);
/** Finite operands of f16. */
template <>
void pack_row_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                    const PackedPanel<HalfLine>& panel);
template <>
void pack_column_panel(const Matrix& x, std::int64_t lanes, std::int64_t terms,
                       const PackedPanel<HalfLine>& panel);
#endif

}  // namespace mezzo::cpu_kernels
