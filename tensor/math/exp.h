// exp, exp2, expm1, sinh, cosh, tanh and sigmoid of floats, without branches, so that loops over
// them vectorise. Parsed by g++ and by nvcc.
// See also: math.h (all functions and their double forms).
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "../core/half.h"
#include "../core/macros.h"

namespace mezzo::math {

namespace detail {

using mezzo::detail::bits_as;

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

/** Returns a * b + c, rounded once if the target has an instruction for it. The choice depends on
 *  the compiler's flags, so it is the same throughout a build. */
template <class T> MZ_HD MZ_ALWAYS_INLINE T multiply_add(T a, T b, T c) {
#if defined(__FMA__) || defined(__CUDA_ARCH__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

/** Returns c0 + x (c1 + x (c2 + ...)). */
template <class T> MZ_HD MZ_ALWAYS_INLINE T polynomial(T, T c0) { return c0; }
template <class T, class... Rest> MZ_HD MZ_ALWAYS_INLINE T polynomial(T x, T c0, Rest... rest) {
  return multiply_add(x, polynomial(x, rest...), c0);
}

/** Returns 1 / x for x from 1 to 2^126. */
MZ_HD MZ_ALWAYS_INLINE float reciprocal(float x) {
#ifdef __CUDA_ARCH__  // the instructions of 1.0f / x, without the branch to those for any x
  float estimate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(estimate) : "f"(x));
  return std::fma(estimate, std::fma(-x, estimate, 1.0f), estimate);
#else
  return 1.0f / x;
#endif
}

/** Returns the smaller number; NaN if x is. */
MZ_HD MZ_ALWAYS_INLINE float at_most(float x, float high) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800  // one instruction
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(high));
  return result;
#else
  return x > high ? high : x;
#endif
}

/** Returns the larger number; NaN if x is. */
MZ_HD MZ_ALWAYS_INLINE float at_least(float x, float low) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(x), "f"(low));
  return result;
#else
  return x < low ? low : x;
#endif
}

/** Returns x limited to [low, high]; NaN is returned unchanged. */
MZ_HD MZ_ALWAYS_INLINE float limited(float x, float low, float high) {
  return at_most(at_least(x, low), high);
}

/** An integer as a float, and in the low 22 bits of a word as two's complement. */
struct Whole {
  float value;
  std::uint32_t bits;
};

/** Returns x * factor rounded to an integer, |x * factor| < 2^21. Adding 1.5 * 2^23 removes the
 *  fraction bits and puts the integer into the low mantissa bits. */
MZ_HD MZ_ALWAYS_INLINE Whole nearest_whole(float x, float factor = 1.0f) {
  constexpr float kShift = 0x1.8p23f;
  const float shifted = multiply_add(x, factor, kShift);
  return {shifted - kShift, bits_as<std::uint32_t>(shifted)};
}

/** Returns 2^n for n in -126..127. Only the low 9 bits of n are used. */
MZ_HD MZ_ALWAYS_INLINE float power_of_two(std::uint32_t n) {
  return bits_as<float>((n + 127u) << 23);
}

/** Returns x * 2^n for n in -252..254, rounded once: the first factor keeps a normal x normal.
 *  Only the low 10 bits of n are used. */
MZ_HD MZ_ALWAYS_INLINE float scaled(float x, std::uint32_t n) {
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(n) >> 1);
  return x * power_of_two(half) * power_of_two(n - half);
}

// ln 2 in two parts; products of the first with integers up to 2^14 are exact.
inline constexpr float kLn2High = 0x1.63p-1f;
inline constexpr float kLn2Low = -0x1.bd0106p-13f;
inline constexpr float kLog2E = 0x1.715476p+0f;

/** Returns (e^r - 1 - r) / r^2 for |r| <= ln(2)/2; minimax, relative error of e^r 3.4e-9. */
MZ_HD MZ_ALWAYS_INLINE float exp_tail(float r) {
  return polynomial(r, 0x1.fffffcp-2f, 0x1.555494p-3f, 0x1.555886p-5f, 0x1.12386cp-7f,
                    0x1.6a7b7ep-10f);
}

/** e^x as mantissa * 2^exponent, mantissa in [0.7, 1.42]; |x| < 2^14. */
struct Split {
  float mantissa;
  std::uint32_t exponent;
};
MZ_HD MZ_ALWAYS_INLINE Split exp_split(float x) {
  const Whole n = nearest_whole(x, kLog2E);
  const float r = multiply_add(-n.value, kLn2Low, multiply_add(-n.value, kLn2High, x));
  return {1.0f + multiply_add(r * r, exp_tail(r), r), n.bits};
}

}  // namespace detail

/** Returns true if the functions below named _normal give the same bits as the full ones. They
 *  omit what e^x needs where it overflows or is subnormal. False for NaN. */
MZ_HD MZ_ALWAYS_INLINE bool has_normal_exp(float x) { return std::fabs(x) <= 87.0f; }
MZ_HD MZ_ALWAYS_INLINE float exp_normal(float x) {
  const detail::Split e = detail::exp_split(x);
  return e.mantissa * detail::power_of_two(e.exponent);
}

/** Returns e^x. Overflow gives infinity, subnormal results are kept. Error: below 1 ulp. */
MZ_HD MZ_ALWAYS_INLINE float exp(float x) {
  const detail::Split e = detail::exp_split(detail::limited(x, -104.0f, 89.0f));
  return detail::scaled(e.mantissa, e.exponent);
}

namespace detail {

/** Returns 2^r - 1 for |r| <= 1/2. */
MZ_HD MZ_ALWAYS_INLINE float exp2_rest(float r) {
  return r * polynomial(r, 0x1.62e432p-1f, 0x1.ebfc18p-3f, 0x1.c6ad62p-5f, 0x1.3afb98p-7f,
                        0x1.5fe47ap-10f, 0x1.66663ep-13f);
}

}  // namespace detail

/** Returns 2^x; exact for integers. Error: below 1.2 ulp. */
MZ_HD MZ_ALWAYS_INLINE float exp2(float x) {
  const float c = detail::limited(x, -151.0f, 129.0f);
  const detail::Whole n = detail::nearest_whole(c);
  const float r = c - n.value;
  return detail::scaled(1.0f + detail::exp2_rest(r), n.bits);
}

/** Returns e^x - 1, with full relative precision near 0. Error: below 1.7 ulp. */
MZ_HD MZ_ALWAYS_INLINE float expm1(float x) {
  using namespace detail;
  const float c = detail::limited(x, -18.0f, 89.0f);
  const Whole n = nearest_whole(c, kLog2E);
  const float high = multiply_add(-n.value, kLn2High, c);
  const float low = n.value * kLn2Low;
  const float r = high - low;
  const float lost = (high - r) - low;
  const float p = r + (r * r * exp_tail(r) + lost);
  // e^x - 1 = 2 (2^(n-1) p + 2^(n-1) - 1/2): the halved scale stays finite up to the largest
  // result.
  const float half_scale = power_of_two(n.bits - 1u);
  const float result = 2.0f * (half_scale * p + (half_scale - 0.5f));
  return std::fabs(x) < 0x1p-25f ? x : result;
}

namespace detail {

/** Returns sigmoid(x) for z = e^-|x|. */
MZ_HD MZ_ALWAYS_INLINE float sigmoid_from(float x, float z) {
  const float right = reciprocal(1.0f + z);
  // For x < 0: z / (1 + z), written so that the rounding of 1 + z has little effect.
  return x >= 0.0f ? right : z - z * (z * right);
}

}  // namespace detail

/** Returns 1 / (1 + e^-x), with full relative precision towards 0 as well. Error: below 2 ulp. */
MZ_HD MZ_ALWAYS_INLINE float sigmoid(float x) {
  const detail::Split e = detail::exp_split(detail::at_least(-std::fabs(x), -104.0f));
  // The first power of two is normal; the second rounds once to a subnormal number or 0.
  const float z = e.mantissa * detail::power_of_two(e.exponent + 32u) * 0x1p-32f;
  return detail::sigmoid_from(x, z);
}
MZ_HD MZ_ALWAYS_INLINE float sigmoid_normal(float x) {
  return detail::sigmoid_from(x, exp_normal(-std::fabs(x)));
}

namespace detail {

/** Returns e^a / 2 for a >= 0, finite where sinh and cosh are. */
MZ_HD MZ_ALWAYS_INLINE float half_exp(float a) {
  const Split e = exp_split(limited(a, 0.0f, 91.0f));
  return scaled(e.mantissa, e.exponent - 1u);
}

}  // namespace detail

/** Returns the hyperbolic cosine. Error: below 2 ulp. */
MZ_HD MZ_ALWAYS_INLINE float cosh(float x) {
  const float h = detail::half_exp(std::fabs(x));
  return h + 0.25f / h;
}

/** Returns the hyperbolic sine, with full relative precision near 0. Error: below 2 ulp. */
MZ_HD MZ_ALWAYS_INLINE float sinh(float x) {
  using namespace detail;
  const float a = std::fabs(x);
  const float s = x * x;
  const float near_zero =
      a + a * (s * polynomial(s, 0x1.555556p-3f, 0x1.111134p-7f, 0x1.9ffe92p-13f, 0x1.7a15b6p-19f));
  const float h = half_exp(a);
  return std::copysign(a < 1.0f ? near_zero : h - 0.25f / h, x);
}

/** Returns the hyperbolic tangent, with full relative precision near 0. Error: below 1.4 ulp. */
MZ_HD MZ_ALWAYS_INLINE float tanh(float x) {
  using namespace detail;
  const float a = std::fabs(x);
  const float s = x * x;
  const float slope = polynomial(s, -0x1.555534p-2f, 0x1.11075ep-3f, -0x1.b842c4p-5f,
                                 0x1.524c44p-6f, -0x1.767a14p-8f);
  const float near_zero = multiply_add(x * s, slope, x);
  const float far = 1.0f - 2.0f / (exp_normal(2.0f * (a > 9.5f ? 9.5f : a)) + 1.0f);
  return std::copysign(a < 0.625f ? near_zero : far, x);
}

}  // namespace mezzo::math
