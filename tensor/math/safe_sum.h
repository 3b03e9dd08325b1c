// Which sums of powers are neither too large nor too small for their type, and the powers of two by
// which others are scaled and computed again. Parsed by g++ and by nvcc.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "../core/half.h"
#include "../core/macros.h"

namespace mezzo::math {

/** Returns whether x is neither infinite nor nan. */
template <class C> MZ_HD inline bool is_finite(C x) { return x - x == C(0); }

/** Returns whether a sum of powers is finite and so large that terms which underflowed do not
 *  matter. */
template <class C> MZ_HD inline bool is_safe_sum(C sum) {
  constexpr C kLeast = static_cast<C>(std::is_same_v<C, float> ? 0x1p-80 : 0x1p-900);
  return sum >= kLeast && sum <= std::numeric_limits<C>::max();
}

/** Returns whether the mean and the sum of squared deviations of a line are right: none of them
 *  overflowed, and the squares did not underflow. Those of a mean of normal size do not, because
 * the deviations are multiples of its last digit. */
template <class C> MZ_HD inline bool are_safe_moments(C mean, C squares) {
  constexpr C kSmall = static_cast<C>(std::is_same_v<C, float> ? 0x1p-40 : 0x1p-450);
  if (!is_finite(mean) || !is_finite(squares)) return false;
  return is_safe_sum(squares) || mean > kSmall || mean < -kSmall;
}

/** Returns the power of two that brings |x| to [1, 4); 1 for 0, infinities and nan. */
template <class C> MZ_HD inline C scale_of(C x) {
  using Bits = std::conditional_t<sizeof(C) == 4, std::uint32_t, std::uint64_t>;
  constexpr int kMantissa = std::numeric_limits<C>::digits - 1;
  constexpr Bits kMost = sizeof(C) == 4 ? 0xFF : 0x7FF;  // the exponent of infinities
  const Bits exponent = mezzo::detail::bits_as<Bits>(x) >> kMantissa & kMost;
  if (x == C(0) || exponent == kMost) return C(1);
  const Bits wanted = kMost - 1 - exponent;  // a normal number, unless that of the largest numbers
  const Bits normal = wanted < 1 ? 1 : wanted > kMost - 2 ? kMost - 2 : wanted;
  return mezzo::detail::bits_as<C>(static_cast<Bits>(normal << kMantissa));
}

}  // namespace mezzo::math
