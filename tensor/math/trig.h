// sin, cos and tan of floats over the whole range, without branches, so that loops over them
// vectorise. Parsed by g++ and by nvcc.
// See also: math.h (all functions and their double forms).
#pragma once

#include "exp.h"

namespace mezzo::math {

namespace detail {

/** x = r + (pi / 2) * quadrant modulo 2 pi, |r| <= pi/4; quadrant counts modulo 4. */
struct Angle {
  double r;
  std::uint32_t quadrant;
};

/** Reduces |x| < 2^27: splits pi/2 into three parts, the first two of which times the quadrant are
 *  exact (Cody and Waite). */
MZ_HD inline Angle reduce_moderate(float x) {
  constexpr double kShift = 0x1.8p52;
  const double wide = static_cast<double>(x);
  const double shifted = wide * 0.63661977236758134308 + kShift;
  const double n = shifted - kShift;
  const double r = ((wide - n * 0x1.921fb5p+0) - n * 0x1.110b46p-26) - n * 0x1.1a62633145c07p-54;
  return {r, static_cast<std::uint32_t>(bits_as<std::uint64_t>(shifted))};
}

/** Reduces |x| >= 2^27: x is an integer m * 2^s, and only the bits of 1/(2 pi) from position s on
 *  contribute to the fraction of a turn (Payne and Hanek). 96 of them are used, so the truncation
 *  error is below 2^-72 turns. */
MZ_HD inline Angle reduce_huge(float x) {
  const std::uint32_t bits = bits_as<std::uint32_t>(x);
  const std::uint64_t m = (bits & 0x7FFFFFu) | 0x800000u;
  const std::uint32_t s = ((bits >> 23) & 0xFFu) - 150u;
  const std::uint32_t shift = s & 31u;
  const bool from1 = s >= 32u, from2 = s >= 64u, from3 = s >= 96u;
  const auto pick = [&](std::uint32_t w0, std::uint32_t w1, std::uint32_t w2, std::uint32_t w3) {
    const std::uint32_t low = from1 ? w1 : w0;
    const std::uint32_t high = from3 ? w3 : w2;
    return static_cast<std::uint64_t>(from2 ? high : low);
  };
  const std::uint64_t a = pick(0x28BE60DBu, 0x9391054Au, 0x7F09D5F4u, 0x7D4D3770u);
  const std::uint64_t b = pick(0x9391054Au, 0x7F09D5F4u, 0x7D4D3770u, 0x36D8A566u);
  const std::uint64_t c = pick(0x7F09D5F4u, 0x7D4D3770u, 0x36D8A566u, 0x4F10E410u);
  const std::uint64_t d = pick(0x7D4D3770u, 0x36D8A566u, 0x4F10E410u, 0x7F9458EAu);
  const std::uint64_t w0 = (((a << 32) | b) << shift) >> 32;
  const std::uint64_t w1 = (((b << 32) | c) << shift) >> 32;
  const std::uint64_t w2 = (((c << 32) | d) << shift) >> 32;
  const std::uint64_t turn =
      ((m * w0) << 32) + m * w1 + ((m * w2) >> 32);  // in units of 2^-64 turns

  const std::uint64_t quadrant = (turn + (std::uint64_t{1} << 61)) >> 62;
  const std::uint64_t rest = turn - (quadrant << 62);  // signed, within an eighth of a turn
  const auto rest_high = static_cast<std::int32_t>(static_cast<std::uint32_t>(rest >> 32));
  const auto rest_low = static_cast<std::int32_t>((rest & 0xFFFFFFFFu) >> 1);
  const double eighths =
      static_cast<double>(rest_high) * 0x1p32 + static_cast<double>(rest_low) * 2.0;
  const double r = eighths * (1.57079632679489661923 * 0x1p-62);
  const auto q = static_cast<std::uint32_t>(quadrant);
  return {x < 0.0f ? -r : r, x < 0.0f ? 0u - q : q};
}

/** Reduces any finite x; gives the same bits as reduce_moderate where that is valid. */
MZ_HD inline Angle reduce(float x) {
  const Angle moderate = reduce_moderate(x);
  const Angle huge = reduce_huge(x);
  const bool is_huge = std::fabs(x) >= 0x1p27f;
  return {is_huge ? huge.r : moderate.r, is_huge ? huge.quadrant : moderate.quadrant};
}

/** Returns sin(x + (pi / 2) * ahead) from the reduced x. */
MZ_HD inline float sin_ahead(float x, const Angle& angle, std::uint32_t ahead) {
  const auto r = static_cast<float>(angle.r);
  const std::uint32_t quadrant = angle.quadrant + ahead;
  const float s = r * r;
  const float sine = std::copysign(
      r + r * s * polynomial(s, -0x1.555556p-3f, 0x1.111176p-7f, -0x1.a05bbap-13f, 0x1.7cd82ap-19f),
      r);
  const float cosine =
      1.0f - (0.5f * s - s * s * polynomial(s, 0x1.55554ep-5f, -0x1.6c0e3cp-10f, 0x1.9a6d94p-16f));
  const float value = (quadrant & 1u) != 0 ? cosine : sine;
  const float with_sign = bits_as<float>(bits_as<std::uint32_t>(value) ^ ((quadrant & 2u) << 30));
  return std::fabs(x) < kInfinity ? with_sign : kNan;
}

/** Returns tan(x) from the reduced x: tan(r), or -1 / tan(r) in odd quadrants. */
MZ_HD inline float tan_of(float x, const Angle& angle) {
  const auto r = static_cast<float>(angle.r);
  const auto low = static_cast<float>(angle.r - static_cast<double>(r));
  const float s = r * r;
  const float tail =
      r * (s * polynomial(s, 0x1.55556p-2f, 0x1.110d8cp-3f, 0x1.badc1cp-5f, 0x1.5cad5p-6f,
                          0x1.631f76p-7f, 0x1.6e69ep-14f, 0x1.1ee02p-8f));
  const float near_zero = r + (tail + low);
  const float tangent = std::copysign(near_zero, r);
  const float value = (angle.quadrant & 1u) != 0 ? -1.0f / tangent : tangent;
  return std::fabs(x) < kInfinity ? value : kNan;
}

}  // namespace detail

/** Returns true if the functions below named _moderate give the same bits as the full ones. They
 *  omit the reduction of huge arguments, which is half of the work. False for NaN. */
MZ_HD inline bool is_moderate_angle(float x) { return std::fabs(x) < 0x1p27f; }

/** Returns the sine of x in radians, reduced exactly for every finite x. Error: below 1.5 ulp. */
MZ_HD inline float sin(float x) { return detail::sin_ahead(x, detail::reduce(x), 0); }
MZ_HD inline float sin_moderate(float x) {
  return detail::sin_ahead(x, detail::reduce_moderate(x), 0);
}

/** Returns the cosine of x in radians, reduced exactly for every finite x. Error: below 1.5 ulp. */
MZ_HD inline float cos(float x) { return detail::sin_ahead(x, detail::reduce(x), 1); }
MZ_HD inline float cos_moderate(float x) {
  return detail::sin_ahead(x, detail::reduce_moderate(x), 1);
}

/** Returns the tangent of x in radians, reduced exactly for every finite x. Error: below 2 ulp. */
MZ_HD inline float tan(float x) { return detail::tan_of(x, detail::reduce(x)); }
MZ_HD inline float tan_moderate(float x) { return detail::tan_of(x, detail::reduce_moderate(x)); }

}  // namespace mezzo::math
