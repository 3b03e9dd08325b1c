// asin, acos, atan, atan2 and the area functions of floats, without branches, so that loops over
// them vectorise. Parsed by g++ and by nvcc. See also: math.h (all functions and their double
// forms).
#pragma once

#include "exp.h"
#include "log.h"

namespace mezzo::math {

namespace detail {

// pi / 2 and pi in two parts each.
inline constexpr float kHalfPiHigh = 0x1.921fb6p+0f, kHalfPiLow = -0x1.777a5cp-25f;
inline constexpr float kPiHigh = 0x1.921fb6p+1f, kPiLow = -0x1.777a5cp-24f;

/** Returns asin(x) - x from s = x * x <= 1/4. */
MZ_HD inline float asin_tail(float x, float s) {
  return x * (s * polynomial(s, 0x1.5555c8p-3f, 0x1.3301e4p-4f, 0x1.747e4cp-5f, 0x1.8c282ep-6f,
                             0x1.596d36p-5f));
}

/** Returns atan(q) for 0 <= q <= 1. */
MZ_HD inline float atan_of_fraction(float q) {
  const float s = q * q;
  return q +
         q * (s * polynomial(s, -0x1.5554dcp-2f, 0x1.9978f4p-3f, -0x1.230adcp-3f, 0x1.b4e126p-4f,
                             -0x1.3556aap-4f, 0x1.61fdbep-5f, -0x1.0c2bf2p-6f, 0x1.7ed1eap-9f));
}

/** The common part of asin and acos: the argument z of a series and its tail. Above 1/2 they use
 *  asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)). */
struct ArcSplit {
  float z, tail;
  bool far;
};
MZ_HD inline ArcSplit arc_split(float a) {
  const bool far = a > 0.5f;
  const float s = far ? 0.5f * (1.0f - a) : a * a;
  const float root = std::sqrt(s);
  const float z = far ? root : a;
  return {z, asin_tail(z, s), far};
}

}  // namespace detail

/** Returns the arc sine; NaN outside [-1, 1]. Error: below 2 ulp. */
MZ_HD inline float asin(float x) {
  using namespace detail;
  const ArcSplit a = arc_split(std::fabs(x));
  const float far = (kHalfPiHigh - 2.0f * a.z) - (2.0f * a.tail - kHalfPiLow);
  return std::copysign(a.far ? far : a.z + a.tail, x);
}

/** Returns the arc cosine; NaN outside [-1, 1]. Error: below 1.5 ulp. */
MZ_HD inline float acos(float x) {
  using namespace detail;
  const ArcSplit a = arc_split(std::fabs(x));
  const float near = kHalfPiHigh - (x - (kHalfPiLow - std::copysign(a.tail, x)));
  const float twice = 2.0f * (a.z + a.tail);
  const float far = x < 0.0f ? kPiHigh - (twice - kPiLow) : twice;
  return a.far ? far : near;
}

/** Returns the arc tangent. Error: below 2 ulp. */
MZ_HD inline float atan(float x) {
  using namespace detail;
  const float a = std::fabs(x);
  const bool inverted = a > 1.0f;
  const float r = atan_of_fraction(inverted ? 1.0f / a : a);
  return std::copysign(inverted ? kHalfPiHigh - (r - kHalfPiLow) : r, x);
}

/** Returns the angle of the point (x, y), in [-pi, pi]; zeros and infinities as in IEEE 754. Error:
 *  below 2 ulp. */
MZ_HD inline float atan2(float y, float x) {
  using namespace detail;
  const float a = std::fabs(y), b = std::fabs(x);
  const bool steep = a > b;
  const float low = steep ? b : a, high = steep ? a : b;
  const float quotient = low / (high == 0.0f ? 1.0f : high);
  const float r = atan_of_fraction(low == kInfinity ? 1.0f : quotient);
  const float first = steep ? kHalfPiHigh - (r - kHalfPiLow) : r;
  const bool left = (bits_as<std::uint32_t>(x) >> 31) != 0;
  const float angle = std::copysign(left ? kPiHigh - (first - kPiLow) : first, y);
  const bool defined = (a == a) & (b == b);
  return defined ? angle : kNan;
}

namespace detail {

// For a >= this, asinh(a) and acosh(a) equal log(2a) to full precision. For the largest a, a * a
// would overflow.
inline constexpr float kAreaLarge = 0x1p14f;
inline constexpr float kLn2 = 0x1.62e43p-1f;

}  // namespace detail

/** Returns the area hyperbolic sine, with full relative precision near 0. Error: below 2 ulp. */
MZ_HD inline float asinh(float x) {
  using namespace detail;
  const float a = std::fabs(x);
  const bool large = a >= kAreaLarge;
  const float c = large ? 1.0f : a;
  const float near = c + c * c / (1.0f + std::sqrt(1.0f + c * c));  // e^asinh(a) - 1
  return std::copysign(log1p(large ? a - 1.0f : near) + (large ? kLn2 : 0.0f), x);
}

/** Returns the area hyperbolic cosine, with full relative precision near 1; NaN below 1. Error:
 *  below 2.5 ulp. */
MZ_HD inline float acosh(float x) {
  using namespace detail;
  const bool large = x >= kAreaLarge;
  const float t = x - 1.0f;
  const float c = large ? 1.0f : t;
  const float near = c + std::sqrt(c * (c + 2.0f));  // e^acosh(x) - 1
  const float result = log1p(large ? t : near) + (large ? kLn2 : 0.0f);
  return x < 1.0f ? kNan : result;
}

/** Returns the area hyperbolic tangent, with full relative precision near 0. atanh(+-1) =
 *  +-infinity, a larger |x| gives NaN. Error: below 2.5 ulp. */
MZ_HD inline float atanh(float x) {
  const float a = std::fabs(x);
  return std::copysign(0.5f * log1p(2.0f * a / (1.0f - a)), x);
}

}  // namespace mezzo::math
