// The innermost loop of every matrix product: a block of C held in registers over the inner
// dimension.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "simd.h"

namespace mezzo::cpu_kernels {

/** Size of the register block. kRows x kVectors accumulators, kVectors of B and one of A use all
 *  registers. */
template <class T> struct RegisterBlock {
  static constexpr int kRows = kVectorBytes == 64 ? 14 : kVectorBytes == 32 ? 6 : 4;
  static constexpr int kVectors = 2;
  static constexpr int kColumns = kVectors * Simd<T>::kWidth;
};

/** A block's rows of A in place: one of the two strides is 1. In packed rows, the elements of a
 *  step are adjacent and steps are consecutive. */
template <class T> struct BlockRows {
  const T* data;
  std::int64_t row, step;  // elements between rows, and between steps
};

/** A block's columns of B: the elements of a step are adjacent. */
template <class T> struct BlockColumns {
  const T* data;
  std::int64_t step;
};

/** Computes C = A B, or C += A B if `accumulate`, over `depth` steps; C is row-major with `stride`
 *  elements between rows. Every element is one chain of fused multiply-adds in order of depth, in
 *  any block, so results do not depend on the division of the matrix into blocks. */
template <class T>
using MicroKernel = void (*)(std::int64_t depth, const BlockRows<T>& a, const BlockColumns<T>& b,
                             T* c, std::int64_t stride, bool accumulate);

/** Prefetches the data of later steps. Where operands are read in place, consecutive steps are
 *  often a page apart, which the hardware prefetcher does not handle. The distances are tuned by
 *  measurement; the gain is 4 to 6 % for products whose operands come from the L3 cache. */
template <class T, int kRows, int kVectors, bool kAlong>
void fetch_ahead(std::int64_t step, const BlockRows<T>& a, const BlockColumns<T>& b) {
  constexpr int kLine = 64 / static_cast<int>(sizeof(T)), kSteps = 8;
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
    __builtin_prefetch(b.data + kSteps * b.step + j * Simd<T>::kWidth);
}

/** With `kAlong` the steps of a row are adjacent, otherwise the rows of a step. */
template <class T, int kRows, int kVectors, bool kAlong>
void micro_kernel(std::int64_t depth, const BlockRows<T>& rows, const BlockColumns<T>& columns_of_b,
                  T* c, std::int64_t stride, bool accumulate) {
  using S = Simd<T>;
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
  const T *a = rows.data, *b = columns_of_b.data;
  const std::int64_t to_row = kAlong ? rows.row : 1, a_step = kAlong ? 1 : rows.step,
                     b_step = columns_of_b.step;
  for (std::int64_t step = 0; step < depth; ++step) {
    fetch_ahead<T, kRows, kVectors, kAlong>(step, {a, to_row, a_step}, {b, b_step});
    typename S::V columns[kVectors];
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j) columns[j] = S::load(b + j * S::kWidth);
    MZ_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const typename S::V row = S::splat(a[i * to_row]);
      MZ_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = S::fma(row, columns[j], sums[i][j]);
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
template <class T>
using MicroKernels = std::array<
    std::array<std::array<MicroKernel<T>, RegisterBlock<T>::kRows>, RegisterBlock<T>::kVectors>, 2>;

extern const MicroKernels<float> kMicroKernelsF32;   // gemm_micro_f32.cpp
extern const MicroKernels<double> kMicroKernelsF64;  // gemm_micro_f64.cpp

/** Computes the product of one register block of `rows` rows and `vectors` vectors of columns. */
template <class T>
void multiply_block(int rows, int vectors, std::int64_t depth, const BlockRows<T>& a,
                    const BlockColumns<T>& b, T* c, std::int64_t stride, bool accumulate) {
  const auto run = [&](const auto& kernels) {
    kernels[a.row == 1 ? 0 : 1][static_cast<std::size_t>(vectors - 1)]
           [static_cast<std::size_t>(rows - 1)](depth, a, b, c, stride, accumulate);
  };
  if constexpr (std::is_same_v<T, float>)
    run(kMicroKernelsF32);
  else
    run(kMicroKernelsF64);
}

template <class T, bool kAlong, int... kRow>
constexpr typename MicroKernels<T>::value_type make_micro_kernels(
    std::integer_sequence<int, kRow...>) {
  static_assert(RegisterBlock<T>::kVectors == 2);
  return {{{&micro_kernel<T, kRow + 1, 1, kAlong>...}, {&micro_kernel<T, kRow + 1, 2, kAlong>...}}};
}
template <class T> constexpr MicroKernels<T> make_micro_kernels() {
  constexpr auto rows = std::make_integer_sequence<int, RegisterBlock<T>::kRows>{};
  return {make_micro_kernels<T, false>(rows), make_micro_kernels<T, true>(rows)};
}

}  // namespace mezzo::cpu_kernels
