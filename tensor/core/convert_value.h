// converted: converts one element to another type with a single rounding. Every conversion of the
// library follows this rule. Parsed by g++ and by nvcc.
// See also: ../cpu/convert.h (the same conversions in bulk).
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "half.h"

namespace mezzo {

namespace detail {

template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>;

/** Returns x truncated toward zero and saturated; NaN gives 0. */
template <std::integral To, std::floating_point From> MZ_HD constexpr To saturated(From x) {
  constexpr To kMin = std::numeric_limits<To>::min(), kMax = std::numeric_limits<To>::max();
  constexpr From kLow = static_cast<From>(kMin);
  // The smallest integer that is too large: a power of two, so exact.
  constexpr From kEnd = static_cast<From>(kMax / 2 + 1) * 2;
  const From number = x == x ? x : From(0);
  const From raised = number < kLow ? kLow : number;
  const To inside = static_cast<To>(raised < kEnd ? raised : From(0));
  return raised < kEnd ? inside : kMax;
}

}  // namespace detail

/** Returns x converted to To. To a floating type: rounded once to nearest even; values beyond the
 *  largest become infinity. From floating to integer: truncated toward zero and saturated, NaN
 *  gives 0. Between integers: modulo 2^bits. To bool: true if nonzero, NaN included. */
template <class To, class From> MZ_HD constexpr To converted(From x) {
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (detail::kIsHalf<From>)
    return converted<To>(static_cast<float>(x));
  else if constexpr (std::is_same_v<To, bool>)
    return x != From(0);
  else if constexpr (std::integral<To> && std::floating_point<From>)
    return detail::saturated<To>(x);
  else
    return static_cast<To>(x);
}

}  // namespace mezzo
