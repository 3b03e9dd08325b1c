// Functions of bf16 numbers whose results are rounded to bf16: half the operations of the full ones
// in float, and the same bits after rounding for every bf16 number in their range; and gelu of f16
// numbers. Without branches, so that loops over them vectorise. Coefficients: minimax, then moved
// in their last bits until no number differs, with fused multiply-adds and without; a test compares
// all of them. Parsed by g++ and by nvcc. See also: exp.h, erf.h, log.h (the full ones).
#pragma once

#include <cstdint>

#include "../core/half.h"
#include "exp.h"

namespace mezzo::math::for_bf16 {

/** A range of bf16 numbers, by their bits: from `low` to `high`. */
struct Range {
  std::uint16_t low = 0, high = 0;
  bool ignores_sign = false;  // compares magnitudes

  MZ_HD constexpr bool contains(BFloat16 x) const {
    const int bits = ignores_sign ? x.bits & 0x7FFF : x.bits;
    return static_cast<std::uint16_t>(bits - low) <= high - low;
  }
};

/** Magnitudes up to 87, whose exponentials are normal numbers. */
inline constexpr Range kNormalExp{.low = 0, .high = BFloat16(87.0f).bits, .ignores_sign = true};
/** The positive normal numbers. */
inline constexpr Range kPositive{.low = 0x0080, .high = 0x7F7F};
/** From -9.5 on, infinity and positive NaN included. */
inline constexpr Range kAboveNormalTail{.low = 0, .high = BFloat16(-9.5f).bits};
/** Every value, NaN included. */
inline constexpr Range kAll{.low = 0, .high = 0xFFFF};

namespace detail {

using namespace math::detail;

/** Returns 2^(x * factor) for |x * factor| <= 126, with the coefficients of 2^r for |r| <= 1/2. */
template <class... Coefficients>
MZ_HD MZ_ALWAYS_INLINE float power_of_2_by(float x, float factor, Coefficients... of_r) {
  const Whole n = nearest_whole(x, factor);
  const float mantissa = polynomial(multiply_add(x, factor, -n.value), of_r...);
  return bits_as<float>(bits_as<std::uint32_t>(mantissa) + (n.bits << 23));
}
/** As above, relative error below 2^-17. */
MZ_HD MZ_ALWAYS_INLINE float power_of_2(float x, float factor) {
  return power_of_2_by(x, factor, 1.0f, 0x1.62e096p-1f, 0x1.ec003cp-3f, 0x1.c9d3d2p-5f,
                       0x1.3b3048p-7f);
}

/** Returns the smaller number; `high` if x is NaN. */
MZ_HD MZ_ALWAYS_INLINE float number_at_most(float x, float high) {
#ifdef __CUDA_ARCH__
  return fminf(x, high);
#else
  return x < high ? x : high;
#endif
}

/** Returns a / b for b from 1 to 2^126; on a GPU a * (1 / b), whose last bit may differ. */
MZ_HD MZ_ALWAYS_INLINE float quotient(float a, float b) {
#ifdef __CUDA_ARCH__
  return a * reciprocal(b);
#else
  return a / b;
#endif
}

}  // namespace detail

/** Returns e^x for |x| <= 87. */
MZ_HD inline float exp(float x) { return detail::power_of_2(x, detail::kLog2E); }

/** Returns 1 / (1 + e^-x) for |x| <= 87. */
MZ_HD inline float sigmoid(float x) { return detail::reciprocal(1.0f + for_bf16::exp(-x)); }

/** Returns x / (1 + e^-x) for |x| <= 87. */
MZ_HD inline float silu(float x) { return x * for_bf16::sigmoid(x); }

/** Returns the hyperbolic tangent: a minimax fraction up to 4.2, from where on it rounds to 1. */
MZ_HD inline float tanh(float x) {
  using namespace detail;
  const float t = limited(x, -4.2f, 4.2f);
  const float s = t * t;
  return quotient(t * polynomial(s, 1.0f, 0x1.ae039ap-4f, 0x1.8c45a8p-11f),
                  polynomial(s, 1.0f, 0x1.c0be34p-2f, 0x1.be9d82p-7f));
}

/** Returns the natural logarithm of a positive normal x: minimax of degree 6 for log(1 + f) / f,
 *  1 + f in [sqrt(1/2), sqrt(2)]. */
MZ_HD inline float log(float x) {
  using namespace detail;
  constexpr std::uint32_t kSqrtHalf = 0x3F3504F3;
  constexpr float kLn2 = 0x1.62e43p-1f;
  const auto from_sqrt_half = static_cast<std::int32_t>(bits_as<std::uint32_t>(x) - kSqrtHalf);
  const std::int32_t n = from_sqrt_half >> 23;
  const float f =
      bits_as<float>((static_cast<std::uint32_t>(from_sqrt_half) & 0x7FFFFF) + kSqrtHalf) - 1.0f;
  const float ln = f * polynomial(f, 0x1.00001p+0f, -0x1.000176p-1f, 0x1.5523fcp-2f,
                                  -0x1.fe26ccp-3f, 0x1.a3c3cap-3f, -0x1.7e5152p-3f, 0x1.e743bap-4f);
  return multiply_add(static_cast<float>(n), kLn2, ln);
}

/** Returns x times the standard normal distribution at x, from -9.5 on. The probability of values
 *  beyond |x|, divided by the density, is a polynomial in t; at 0 it is 1/2 exactly. */
MZ_HD inline float gelu(float x) {
  using namespace detail;
  const float a = number_at_most(std::fabs(x), 13.0f);  // 13 for NaN, which at_least() keeps
  const float bell = power_of_2(a * a, -0.5f * kLog2E);
  const float t = reciprocal(multiply_add(0.3f, a, 1.0f));
  const float beyond = bell * (t * polynomial(t, 0x1.ecbb04p-4f, 0x1.c8c066p-4f, 0x1.38af4p-3f,
                                              -0x1.07e68cp-5f, 0x1.d53538p-3f, -0x1.4d5118p-4f));
  return multiply_add(-a, beyond, at_least(x, -0.0f));  // -0 at -0
}

/** Returns gelu's tanh form, x / (1 + e^-u) for a cubic u, from -9.5 on. */
MZ_HD inline float gelu_tanh(float x) {
  using namespace detail;
  constexpr float kSlope = 0x1.988454p+0f, kCubic = 0x1.6e4e26p-5f;
  const float z = x * multiply_add(x * x, -kSlope * kCubic * kLog2E, -kSlope * kLog2E);
  return x * reciprocal(1.0f + power_of_2(at_least(z, -126.0f), 1.0f));
}

}  // namespace mezzo::math::for_bf16

namespace mezzo::math::for_f16 {

/** Every value but -infinity and negative NaN. */
inline constexpr for_bf16::Range kAboveNegativeInfinity{.low = 0, .high = 0xFBFF};

/** Returns x times the standard normal distribution at x, in the form of for_bf16::gelu; from -6
 *  down it rounds to -0. */
MZ_HD inline float gelu(float x) {
  using namespace for_bf16::detail;
  const float a = number_at_most(std::fabs(x), 6.0f);  // 6 for NaN, which at_least() keeps
  const float bell = power_of_2_by(a * a, -0.5f * kLog2E, 1.0f, 0x1.62e42ep-1f, 0x1.ebf8f2p-3f,
                                   0x1.c6b6f2p-5f, 0x1.3d0c4ap-7f, 0x1.5c08e8p-10f);
  const float t = reciprocal(multiply_add(0x1.58919ep-2f, a, 1.0f));
  const float beyond =
      bell * (t * polynomial(t, 0x1.143ap-3f, 0x1.019798p-3f, 0x1.548028p-3f, -0x1.b278a4p-5f,
                             0x1.286998p-2f, -0x1.ab3258p-3f, 0x1.72ae4p-5f));
  return multiply_add(-a, beyond, at_least(x, -0.0f));  // -0 at -0
}

}  // namespace mezzo::math::for_f16
