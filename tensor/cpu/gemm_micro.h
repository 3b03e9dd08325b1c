// The innermost part of every matrix product: a block of C held in registers while the inner dimension runs by.
// Sees: simd.h.
// Read next: gemm_panels.h (who walks over the blocks), gemm_pack.h (the layout the operands come in).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "simd.h"

namespace mezzo::cpu_kernels {

/** Size of the register block: kRows x kVectors accumulators, kVectors of B and one of A are all the registers there are. */
template <class T> struct RegisterBlock {
  static constexpr int kRows = kVectorBytes == 64 ? 14 : kVectorBytes == 32 ? 6 : 4;
  static constexpr int kVectors = 2;
  static constexpr int kColumns = kVectors * Simd<T>::kWidth;
};

/** C = A B, or C += A B when `accumulate`, for `depth` steps. `a` holds the block's rows side by side for each step, `b` its columns; C is
 *  row-major with `stride` elements between rows. Every element is one chain of fused multiply-adds in order of depth, whatever the block it
 *  falls into, so results do not depend on how a matrix is cut. */
template <class T>
using MicroKernel = void (*)(std::int64_t depth, const T* a, const T* b, T* c, std::int64_t stride,
                             bool accumulate);

template <class T, int kRows, int kVectors>
void micro_kernel(std::int64_t depth, const T* a, const T* b, T* c, std::int64_t stride, bool accumulate) {
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
  for (std::int64_t step = 0; step < depth; ++step) {
    typename S::V columns[kVectors];
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j) columns[j] = S::load(b + j * S::kWidth);
    MZ_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const typename S::V row = S::splat(a[i]);
      MZ_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = S::fma(row, columns[j], sums[i][j]);
    }
    a += kRows;
    b += kVectors * S::kWidth;
  }
  MZ_UNROLL
  for (int i = 0; i < kRows; ++i) {
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j) S::store(c + i * stride + j * S::kWidth, sums[i][j]);
  }
}

/** One kernel for each block that can occur: [vectors - 1][rows - 1]. */
template <class T>
using MicroKernels =
    std::array<std::array<MicroKernel<T>, RegisterBlock<T>::kRows>, RegisterBlock<T>::kVectors>;

extern const MicroKernels<float> kMicroKernelsF32;   // gemm_micro_f32.cpp
extern const MicroKernels<double> kMicroKernelsF64;  // gemm_micro_f64.cpp

template <class T> MicroKernel<T> micro_kernel_for(int rows, int vectors) {
  const auto at = [&](const auto& kernels) {
    return kernels[static_cast<std::size_t>(vectors - 1)][static_cast<std::size_t>(rows - 1)];
  };
  if constexpr (std::is_same_v<T, float>)
    return at(kMicroKernelsF32);
  else
    return at(kMicroKernelsF64);
}

template <class T, int... kRow>
constexpr MicroKernels<T> make_micro_kernels(std::integer_sequence<int, kRow...>) {
  static_assert(RegisterBlock<T>::kVectors == 2);
  return {{{&micro_kernel<T, kRow + 1, 1>...}, {&micro_kernel<T, kRow + 1, 2>...}}};
}
template <class T> constexpr MicroKernels<T> make_micro_kernels() {
  return make_micro_kernels<T>(std::make_integer_sequence<int, RegisterBlock<T>::kRows>{});
}

}  // namespace mezzo::cpu_kernels
