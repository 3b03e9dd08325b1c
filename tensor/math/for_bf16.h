// Functions of bf16 numbers whose results are rounded to bf16: half the operations of the full ones
// in float, and the same bits after rounding for every bf16 number in their range. Without
// branches, so that loops over them vectorise. Coefficients: minimax, then moved in their last bits
// until no number differs; a test compares all of them.
// See also: exp.h, erf.h, log.h (the full ones).
#pragma once

#include <cstdint>

#include "../core/half.h"
#include "exp.h"

namespace mezzo::math::for_bf16 {

/** A range of bf16 numbers, by their bits: from `low` to `high`. */
struct Range {
  std::uint16_t low = 0, high = 0;
  bool ignores_sign = false;  // compares magnitudes

  constexpr bool contains(BFloat16 x) const {
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

/** Returns e^x for |x| <= 87, relative error below 2^-17: 2^r by degree 4, |r| <= 1/2. */
inline float exp(float x) {
  using namespace detail;
  const Whole n = nearest_whole(x, kLog2E);
  const float r = multiply_add(x, kLog2E, -n.value);
  const float mantissa =
      polynomial(r, 1.0f, 0x1.62e096p-1f, 0x1.ec0048p-3f, 0x1.c9d43p-5f, 0x1.3b319ap-7f);
  return bits_as<float>(bits_as<std::uint32_t>(mantissa) + (n.bits << 23));
}

/** Returns e^x for x <= 87; below -87 the result is that at -87. */
inline float limited_exp(float x) { return for_bf16::exp(x < -87.0f ? -87.0f : x); }

/** Returns 1 / (1 + e^-x) for |x| <= 87. */
inline float sigmoid(float x) { return 1.0f / (1.0f + for_bf16::exp(-x)); }

/** Returns x / (1 + e^-u) for u >= -87. */
inline float gated(float x, float u) { return x / (1.0f + for_bf16::limited_exp(-u)); }

/** Returns the hyperbolic tangent: a minimax fraction up to 4.2, from where on it rounds to 1. */
inline float tanh(float x) {
  using namespace detail;
  const float t = limited(x, -4.2f, 4.2f);
  const float s = t * t;
  return t * polynomial(s, 1.0f, 0x1.ae039ap-4f, 0x1.8c45a8p-11f) /
         polynomial(s, 1.0f, 0x1.c0be34p-2f, 0x1.be9d82p-7f);
}

/** Returns the natural logarithm of a positive normal x: minimax of degree 6 for log(1 + f) / f,
 *  1 + f in [sqrt(1/2), sqrt(2)]. */
inline float log(float x) {
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
inline float gelu(float x) {
  using namespace detail;
  const float bell = for_bf16::limited_exp(-0.5f * x * x);
  const float t = 1.0f / multiply_add(0.3f, std::fabs(x), 1.0f);
  const float beyond = bell * (t * polynomial(t, 0x1.ecbb04p-4f, 0x1.c8c066p-4f, 0x1.38af4p-3f,
                                              -0x1.07e68cp-5f, 0x1.d53538p-3f, -0x1.4d5118p-4f));
  return x * (x < 0.0f ? beyond : 1.0f - beyond);
}

}  // namespace mezzo::math::for_bf16
