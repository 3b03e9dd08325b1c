// The innermost loop of every convolution: a block of results in registers, one operand read in
// place.
#pragma once

#include "gemm_micro.h"

namespace mezzo::cpu_kernels {

/** Computes c[i][j] = sum over s of x[rows[i] + steps[s]] * b[s][j], added to c if `accumulate`.
 *  Like micro_kernel, but rows and steps are offsets: pixels and taps, or taps and pixels. b is
 *  packed; the row stride of c is RegisterBlock<T>::kColumns. */
template <class T>
using OffsetKernel = void (*)(std::int64_t depth, const std::int64_t* steps, const T* x,
                              const std::int64_t* rows, const T* b, T* c, bool accumulate);

template <class T, int kRows, int kVectors>
void offset_kernel(std::int64_t depth, const std::int64_t* steps, const T* x,
                   const std::int64_t* rows, const T* b, T* c, bool accumulate) {
  using S = Simd<T>;
  constexpr int kStride = RegisterBlock<T>::kColumns;
  typename S::V sums[kRows][kVectors];
  const T* at[kRows];
  MZ_UNROLL
  for (int i = 0; i < kRows; ++i) {
    at[i] = x + rows[i];
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j)
      sums[i][j] = accumulate ? S::load(c + i * kStride + j * S::kWidth) : typename S::V{};
  }
  for (std::int64_t s = 0; s < depth; ++s) {
    const std::int64_t step = steps[s];
    typename S::V columns[kVectors];
    MZ_UNROLL
    for (int j = 0; j < kVectors; ++j) columns[j] = S::load(b + j * S::kWidth);
    MZ_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const typename S::V row = S::splat(at[i][step]);
      MZ_UNROLL
      for (int j = 0; j < kVectors; ++j) sums[i][j] = S::fma(row, columns[j], sums[i][j]);
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
template <class T>
using OffsetKernels =
    std::array<std::array<OffsetKernel<T>, RegisterBlock<T>::kRows>, RegisterBlock<T>::kVectors>;

extern const OffsetKernels<float> kOffsetKernelsF32;   // conv_micro_f32.cpp
extern const OffsetKernels<double> kOffsetKernelsF64;  // conv_micro_f64.cpp

template <class T> OffsetKernel<T> offset_kernel_for(int rows, int vectors) {
  const auto at = [&](const auto& kernels) {
    return kernels[static_cast<std::size_t>(vectors - 1)][static_cast<std::size_t>(rows - 1)];
  };
  if constexpr (std::is_same_v<T, float>)
    return at(kOffsetKernelsF32);
  else
    return at(kOffsetKernelsF64);
}

template <class T, int... kRow>
constexpr OffsetKernels<T> make_offset_kernels(std::integer_sequence<int, kRow...>) {
  return {{{&offset_kernel<T, kRow + 1, 1>...}, {&offset_kernel<T, kRow + 1, 2>...}}};
}
template <class T> constexpr OffsetKernels<T> make_offset_kernels() {
  return make_offset_kernels<T>(std::make_integer_sequence<int, RegisterBlock<T>::kRows>{});
}

}  // namespace mezzo::cpu_kernels
