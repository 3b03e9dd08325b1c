// The innermost loop of every convolution: a block of results in registers, one operand read in
// place.
#pragma once

#include "../../cpu/gemm_micro.h"

namespace mezzo::cpu_kernels {

/** Computes c[i][j] = sum over s of x[rows[i] + steps[s]] * b[s][j], added to c if `accumulate`.
 *  Like micro_kernel, but rows and steps are offsets: pixels and taps, or taps and pixels. b is
 *  packed; the row stride of c is RegisterBlock<E>::kColumns. */
template <class E>
using OffsetKernel = void (*)(std::int64_t depth, const std::int64_t* steps, const E* x,
                              const std::int64_t* rows, const E* b, SumOf<E>* c, bool accumulate);

template <class E, int kRows, int kVectors>
void offset_kernel(std::int64_t depth, const std::int64_t* steps, const E* x,
                   const std::int64_t* rows, const E* b, SumOf<E>* c, bool accumulate) {
  using S = Simd<SumOf<E>>;
  using F = Factors<E>;
  constexpr int kStride = RegisterBlock<E>::kColumns;
  typename S::V sums[kRows][kVectors];
  const E* at[kRows];
  MZ_UNROLL
  for (int i = 0; i < kRows; ++i) {
    at[i] = x + rows[i];
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j)
      sums[i][j] = accumulate ? S::load(c + i * kStride + j * S::kWidth) : typename S::V{};
  }
  for (std::int64_t s = 0; s < depth; ++s) {
    const std::int64_t step = steps[s];
    typename F::V columns[kVectors];
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j) columns[j] = F::load(b + j * S::kWidth);
    MZ_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const typename F::V row = F::splat(at[i] + step);
      MZ_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = F::add_products(row, columns[j], sums[i][j]);
    }
    b += kVectors * S::kWidth;
  }
  MZ_UNROLL
  for (int i = 0; i < kRows; ++i) {
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j) S::store(c + i * kStride + j * S::kWidth, sums[i][j]);
  }
}

/** One kernel for each possible block: [vectors - 1][rows - 1]. */
template <class E>
using OffsetKernels =
    std::array<std::array<OffsetKernel<E>, RegisterBlock<E>::kRows>, RegisterBlock<E>::kVectors>;

/** Returns all kernels for panels of E: see conv_micro_*.cpp. */
template <class E> const OffsetKernels<E>& offset_kernels();

/** The rows of a block: `full` in a whole one, of which this one has `valid`. The offsets of the
 *  others are those of some rows; their results do not count. */
struct OffsetBlock {
  int full, valid;
};

/** Computes one block with the kernel for its size. Lines need a TileScope (gemm_tile.h). */
template <class E>
void multiply_offsets(OffsetBlock block, int vectors, std::int64_t depth, const std::int64_t* steps,
                      const E* x, const std::int64_t* rows, const E* b, SumOf<E>* c,
                      bool accumulate) {
  offset_kernels<E>()[static_cast<std::size_t>(vectors - 1)][static_cast<std::size_t>(
      block.full - 1)](depth, steps, x, rows, b, c, accumulate);
}

#if defined(__AVX512BF16__)
template <>
void multiply_offsets(OffsetBlock block, int vectors, std::int64_t depth, const std::int64_t* steps,
                      const BFloat16Line* x, const std::int64_t* rows, const BFloat16Line* b,
                      float* c, bool accumulate);
template <>
void multiply_offsets(OffsetBlock block, int vectors, std::int64_t depth, const std::int64_t* steps,
                      const HalfLine* x, const std::int64_t* rows, const HalfLine* b, float* c,
                      bool accumulate);
#endif

template <class E, int... kRow>
constexpr OffsetKernels<E> make_offset_kernels(std::integer_sequence<int, kRow...>) {
  return {{{&offset_kernel<E, kRow + 1, 1>...}, {&offset_kernel<E, kRow + 1, 2>...}}};
}
template <class E> constexpr OffsetKernels<E> make_offset_kernels() {
  return make_offset_kernels<E>(std::make_integer_sequence<int, RegisterBlock<E>::kRows>{});
}

}  // namespace mezzo::cpu_kernels
