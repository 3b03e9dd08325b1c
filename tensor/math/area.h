// asinh, acosh and atanh of floats, without branches, so that loops over them vectorise. Parsed by
// g++ and by nvcc.
// See also: math.h (all functions and their double forms).
#pragma once

#include "log.h"

namespace mezzo::math {

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
