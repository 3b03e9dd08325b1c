// The innermost loop of every matrix product: a block of C held in registers over the inner
// dimension.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "gemm_factors.h"

namespace mezzo::cpu_kernels {

/** Size of the register block of panels of E. kRows x kVectors accumulators, kVectors of B and one
 *  of A use all registers; four tiles of sums, two of A and two of B are all tiles. */
template <class E> struct RegisterBlock {
  static constexpr int kRows = kIsLine<E>           ? 32
                               : kVectorBytes == 64 ? 14
                               : kVectorBytes == 32 ? 6
                                                    : 4;
  static constexpr int kVectors = 2;
  static constexpr int kLanes = Simd<SumOf<E>>::kWidth;  // columns per vector
  static constexpr int kColumns = kVectors * kLanes;
};

/** A block's rows of A in place: one of the two strides is 1. In packed rows, the elements of a
 *  step are adjacent and steps are consecutive. */
template <class E> struct BlockRows {
  const E* data;
  std::int64_t row, step;  // elements between rows, and between steps
};

/** A block's columns of B: the elements of a step are adjacent. */
template <class E> struct BlockColumns {
  const E* data;
  std::int64_t step;
};

/** Computes C = A B, or C += A B if `accumulate`, over `depth` steps; C is row-major with `stride`
 *  elements between rows. Every element is one chain of add_products() in order of depth, in any
 *  block, so results do not depend on the division of the matrix into blocks. */
template <class E>
using MicroKernel = void (*)(std::int64_t depth, const BlockRows<E>& a, const BlockColumns<E>& b,
                             SumOf<E>* c, std::int64_t stride, bool accumulate);

/** Prefetches the data of later steps. Where operands are read in place, consecutive steps are
 *  often a page apart, which the hardware prefetcher does not handle. The distances are tuned by
 *  measurement; the gain is 4 to 6 % for products whose operands come from the L3 cache. */
template <class E, int kRows, int kVectors, bool kAlong>
void fetch_ahead(std::int64_t step, const BlockRows<E>& a, const BlockColumns<E>& b) {
  constexpr int kLine = 64 / static_cast<int>(sizeof(E)), kSteps = 8;
  if constexpr (kAlong) {
    if (step % kLine == 0) {
      MZ_UNROLL
      for (int i = 0; i < kRows; ++i) __builtin_prefetch(a.data + i * a.row + 2 * kLine);
    }
  } else {
    __builtin_prefetch(a.data + kSteps * a.step);
    __builtin_prefetch(a.data + kSteps * a.step + kRows - 1);
  }
  MZ_UNROLL
  for (int j = 0; j < kVectors; ++j)
    __builtin_prefetch(b.data + kSteps * b.step + j * RegisterBlock<E>::kLanes);
}

/** With `kAlong` the steps of a row are adjacent, otherwise the rows of a step. */
template <class E, int kRows, int kVectors, bool kAlong>
void micro_kernel(std::int64_t depth, const BlockRows<E>& rows, const BlockColumns<E>& columns_of_b,
                  SumOf<E>* c, std::int64_t stride, bool accumulate) {
  using S = Simd<SumOf<E>>;
  using F = Factors<E>;
  typename S::V sums[kRows][kVectors];
  if (accumulate) {
    MZ_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MZ_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = S::load(c + i * stride + j * S::kWidth);
    }
  } else {
    MZ_UNROLL
    for (int i = 0; i < kRows; ++i) {
      MZ_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = typename S::V{};
    }
  }
  const E *a = rows.data, *b = columns_of_b.data;
  const std::int64_t to_row = kAlong ? rows.row : 1, a_step = kAlong ? 1 : rows.step,
                     b_step = columns_of_b.step;
  for (std::int64_t step = 0; step < depth; ++step) {
    fetch_ahead<E, kRows, kVectors, kAlong>(step, {a, to_row, a_step}, {b, b_step});
    typename F::V columns[kVectors];
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j) columns[j] = F::load(b + j * S::kWidth);
    MZ_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const typename F::V row = F::splat(a + i * to_row);
      MZ_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = F::add_products(row, columns[j], sums[i][j]);
    }
    a += a_step;
    b += b_step;
  }
  MZ_UNROLL
  for (int i = 0; i < kRows; ++i) {
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j) S::store(c + i * stride + j * S::kWidth, sums[i][j]);
  }
}

/** One kernel for each possible block: [along][vectors - 1][rows - 1]. */
template <class E>
using MicroKernels = std::array<
    std::array<std::array<MicroKernel<E>, RegisterBlock<E>::kRows>, RegisterBlock<E>::kVectors>, 2>;

/** Returns all kernels for panels of E: see gemm_micro_*.cpp. */
template <class E> const MicroKernels<E>& micro_kernels();

/** Computes the product of one register block of `rows` rows and `vectors` vectors of columns.
 * Lines need a TileScope (gemm_tile.h). */
template <class E>
void multiply_block(int rows, int vectors, std::int64_t depth, const BlockRows<E>& a,
                    const BlockColumns<E>& b, SumOf<E>* c, std::int64_t stride, bool accumulate) {
  micro_kernels<E>()[a.row == 1 ? 0 : 1][static_cast<std::size_t>(vectors - 1)]
                    [static_cast<std::size_t>(rows - 1)](depth, a, b, c, stride, accumulate);
}

#if defined(__AVX512BF16__)
template <>
void multiply_block(int rows, int vectors, std::int64_t depth, const BlockRows<BFloat16Line>& a,
                    const BlockColumns<BFloat16Line>& b, float* c, std::int64_t stride,
                    bool accumulate);
template <>
void multiply_block(int rows, int vectors, std::int64_t depth, const BlockRows<HalfLine>& a,
                    const BlockColumns<HalfLine>& b, float* c, std::int64_t stride,
                    bool accumulate);
#endif

template <class E, bool kAlong, int... kRow>
constexpr typename MicroKernels<E>::value_type make_micro_kernels(
    std::integer_sequence<int, kRow...>) {
  static_assert(RegisterBlock<E>::kVectors == 2);
  return {{{&micro_kernel<E, kRow + 1, 1, kAlong>...}, {&micro_kernel<E, kRow + 1, 2, kAlong>...}}};
}
template <class E> constexpr MicroKernels<E> make_micro_kernels() {
  constexpr auto rows = std::make_integer_sequence<int, RegisterBlock<E>::kRows>{};
  return {make_micro_kernels<E, false>(rows), make_micro_kernels<E, true>(rows)};
}

}  // namespace mezzo::cpu_kernels
