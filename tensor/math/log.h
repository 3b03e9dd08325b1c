// log, log1p, log2, log10 and pow of floats, without branches, so that loops over them vectorise.
// Parsed by g++ and by nvcc.
// See also: math.h (all functions and their double forms).
#pragma once

#include "exp.h"

namespace mezzo::math {

namespace detail {

/** x = 2^exponent * (1 + fraction), fraction in [sqrt(1/2) - 1, sqrt(2) - 1], for positive
 *  finite x, subnormals included. */
struct LogSplit {
  float fraction;
  std::int32_t exponent;
};
MZ_HD inline LogSplit log_split(float x) {
  constexpr std::uint32_t kSqrtHalf = 0x3F3504F3;
  const bool subnormal = x < 0x1p-126f;
  const std::uint32_t bits = bits_as<std::uint32_t>(subnormal ? x * 0x1p23f : x);
  const std::int32_t exponent = static_cast<std::int32_t>(bits - kSqrtHalf) >> 23;
  const float mantissa = bits_as<float>(bits - (static_cast<std::uint32_t>(exponent) << 23));
  return {mantissa - 1.0f, exponent - (subnormal ? 23 : 0)};
}

/** Returns exponent * ln 2 + ln(1 + f), f in [sqrt(1/2) - 1, sqrt(2) - 1]. */
MZ_HD inline float log_sum(float f, std::int32_t exponent) {
  const auto n = static_cast<float>(exponent);
  const float s = f * f;
  const float tail =
      polynomial(f, 0x1.555548p-2f, -0x1.00007p-2f, 0x1.99a54p-3f, -0x1.552f18p-3f, 0x1.23036ep-3f,
                 -0x1.0103e2p-3f, 0x1.eff05ep-4f, -0x1.bf291cp-4f, 0x1.b5a9bap-5f);
  const float small = multiply_add(-0.5f, s, multiply_add(f * s, tail, n * kLn2Low));
  return multiply_add(n, kLn2High, f + small);
}

/** Returns `value`, the logarithm of a positive finite x, or the IEEE 754 result for other x. */
MZ_HD inline float log_guarded(float x, float value) {
  const float outside = x == 0.0f ? -kInfinity : kNan;
  return x > 0.0f ? (x < kInfinity ? value : x) : outside;
}

/** Returns log2 of a positive finite float to 45 bits, by the series of atanh((m - 1) / (m +
 *  1)). */
MZ_HD inline double log2_wide(float x) {
  const LogSplit split = log_split(x);
  const double f = static_cast<double>(split.fraction);
  const double s = f / (f + 2.0);
  return static_cast<double>(split.exponent) +
         s * polynomial(s * s, 2.88539008177784995, 0.961796694113438488, 0.577077942334949578,
                        0.412209255604037261, 0.319905556745195330, 0.282902266928512336);
}

/** Returns 2^t to 34 bits for |t| < 1000. */
MZ_HD inline double exp2_wide(double t) {
  constexpr double kShift = 0x1.8p52;
  const double shifted = t + kShift;
  const double r = t - (shifted - kShift);
  const std::uint64_t n = bits_as<std::uint64_t>(shifted) - bits_as<std::uint64_t>(kShift);
  const double scale = bits_as<double>((n + 1023u) << 52);
  return scale *
         (1.0 + r * polynomial(r, 0.6931471807047628, 0.24022651067002523, 0.0555041036539304,
                               0.009618038059680954, 0.0013333935355197683, 0.0001546678151056378,
                               1.5196134368275322e-05));
}

}  // namespace detail

/** Returns the natural logarithm. log(0) = -infinity, negative gives NaN. Error: below 1 ulp. */
MZ_HD inline float log(float x) {
  const detail::LogSplit split = detail::log_split(x);
  return detail::log_guarded(x, detail::log_sum(split.fraction, split.exponent));
}

/** Returns log(1 + x), with full relative precision near 0. log1p(-1) = -infinity, smaller x gives
 *  NaN. Error: below 1.4 ulp. */
MZ_HD inline float log1p(float x) {
  using namespace detail;
  const float u = 1.0f + x;
  const float rest = u - 1.0f;
  const float lost = (1.0f - (u - rest)) + (x - rest);  // the rounding error of u
  const LogSplit split = log_split(u);
  // Scaled like u's mantissa; above 2^64 the correction has no effect.
  const float shrink =
      split.exponent < 64 ? power_of_two(0u - static_cast<std::uint32_t>(split.exponent)) : 0.0f;
  const float result = log_sum(split.fraction + lost * shrink, split.exponent);
  return std::fabs(x) < 0x1p-25f ? x : log_guarded(u, result);
}

/** Returns the logarithm to base 2; exact for powers of two. Error: below 0.51 ulp. */
MZ_HD inline float log2(float x) {
  return detail::log_guarded(x, static_cast<float>(detail::log2_wide(x)));
}

/** Returns the logarithm to base 10; exact for powers of ten. Error: below 0.51 ulp. */
MZ_HD inline float log10(float x) {
  constexpr double kLog10Of2 = 0.301029995663981195;
  return detail::log_guarded(x, static_cast<float>(detail::log2_wide(x) * kLog10Of2));
}

/** Returns x to the power y with the special cases of IEEE 754: pow(x, 0) = pow(1, y) = 1 even for
 *  NaN; a negative base with a non-integer exponent gives NaN. Error: below 0.51 ulp. */
MZ_HD inline float pow(float x, float y) {
  using namespace detail;
  const float a = std::fabs(x);
  // Floats with a magnitude of 2^24 or more are even integers; infinities are treated alike.
  const bool large = std::fabs(y) >= 0x1p24f;
  const float small_y = std::fabs(y) < 0x1p24f ? y : 0.0f;
  const std::int32_t whole = static_cast<std::int32_t>(small_y);
  const bool whole_y = static_cast<float>(whole) == small_y;
  const bool integer = large | whole_y;
  const std::uint32_t odd = static_cast<std::uint32_t>(whole) & (whole_y ? 1u : 0u);

  const double log2_finite = log2_wide(a > 0.0f && a < kInfinity ? a : 1.0f);
  const double log2_zero = -static_cast<double>(kInfinity);
  const double log2_a =
      a < kInfinity ? (a == 0.0f ? log2_zero : log2_finite) : static_cast<double>(a);
  const double product = static_cast<double>(y) * log2_a;
  const double low = product < -200.0 ? -200.0 : product;
  const float magnitude = static_cast<float>(exp2_wide(low > 200.0 ? 200.0 : low));

  const std::uint32_t sign = bits_as<std::uint32_t>(x) & (odd << 31);
  const float with_sign = bits_as<float>(bits_as<std::uint32_t>(magnitude) | sign);
  const float defined = x < 0.0f && a < kInfinity && !integer ? kNan : with_sign;
  const bool one = (y == 0.0f) | (x == 1.0f) | ((x == -1.0f) & (std::fabs(y) == kInfinity));
  return one ? 1.0f : defined;
}

}  // namespace mezzo::math
