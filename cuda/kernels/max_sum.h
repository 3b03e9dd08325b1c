// The maximum of rows of packs and the sum of their shifted exponentials, in one pass: for softmax
// and cross entropy.
#pragma once

#include "../../tensor/cpu/order.h"
#include "../../tensor/ops/norm/softmax_line_cpu.h"
#include "typed.h"

namespace mezzo::gpu {

/** Returns the greater of two; nan if either is. */
__device__ inline float greater(float a, float b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return cpu_kernels::Greater{}(a, b);
#endif
}

#ifdef __CUDA_ARCH__
/** Returns 2^x; results below the normal numbers are 0. Relative error: below 2^-22. */
__device__ inline float fast_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
#endif

/** Returns e^x for x <= 88, for results of T. Results below the normal numbers are 0; nan stays
 * nan. Relative error: below 2^-22 for f32 and 2^-16 for 16-bit types. */
template <class T> __device__ inline float packed_exp(float x) {
#ifdef __CUDA_ARCH__
  constexpr float kLog2E = 0x1.715476p+0f, kRest = 0x1.4ae0cp-26f;  // log2(e) in two parts
  if constexpr (std::is_same_v<T, float>) {
    constexpr float kShift = 0x1.8p23f;  // x = (n + f) ln 2 with an integer n
    const float shifted = std::fma(x, kLog2E, kShift), n = shifted - kShift;
    const float f = std::fma(x, kRest, std::fma(x, kLog2E, -n));
    const std::uint32_t scale =
        (mezzo::detail::bits_as<std::uint32_t>(shifted) << 23) + 0x3F800000u;
    return x < -87.0f ? 0.0f : fast_exp2(f) * mezzo::detail::bits_as<float>(scale);
  }
  return fast_exp2(x * kLog2E);
#else
  return cpu_kernels::shifted_exp(x);
#endif
}

/** The maximum of some elements of T, and the sum of exp(x - shift()). */
template <class T> struct MaxSum {
  float max = cpu_kernels::lowest<float>(), sum = 0;

  /** Returns the maximum; 0 if no element is greater than -inf. */
  __device__ float shift() const { return max == cpu_kernels::lowest<float>() ? 0.0f : max; }
  /** Adds n elements. */
  template <int n> __device__ void add(const float (&x)[n]) {
    const MaxSum before = *this;
#pragma unroll
    for (int k = 0; k < n; ++k) max = greater(max, x[k]);
    const float by = shift();
    sum *= packed_exp<T>(before.max - by);
#pragma unroll
    for (int k = 0; k < n; ++k) sum += packed_exp<T>(x[k] - by);
  }
  /** Returns the state of all elements of the team, to each of its threads. */
  __device__ MaxSum of_all(const Team& team, float* room) const {
    MaxSum all;
    all.max = team.all(max, [](float a, float b) { return greater(a, b); }, room);
    all.sum = team.all(sum * packed_exp<T>(max - all.shift()), cpu_kernels::Plus{}, room);
    return all;
  }
};

}  // namespace mezzo::gpu
