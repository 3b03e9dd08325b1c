// Function objects for reductions: maximum and minimum with nan propagation, sum, product, and
// their neutral elements. Parsed by g++ and by nvcc.
#pragma once

#include <limits>
#include <type_traits>

#include "../core/macros.h"

namespace mezzo::cpu_kernels {

/** The greater of two; a nan on either side is the result. */
struct Greater {
  template <class C> MZ_HD constexpr C operator()(C a, C b) const {
    if constexpr (std::is_floating_point_v<C>)
      return b > a || b != b ? b : a;  // if a is nan, b > a is false and a is returned
    else
      return b > a ? b : a;
  }
  /** The same for numbers that are not nan. */
  template <class C> MZ_HD static constexpr C of_numbers(C a, C b) { return b > a ? b : a; }
};
inline constexpr Greater kGreater;

/** The lesser of two; a nan on either side is the result. */
struct Less {
  template <class C> MZ_HD constexpr C operator()(C a, C b) const {
    if constexpr (std::is_floating_point_v<C>)
      return b < a || b != b ? b : a;
    else
      return b < a ? b : a;
  }
  /** The same for numbers that are not nan. */
  template <class C> MZ_HD static constexpr C of_numbers(C a, C b) { return b < a ? b : a; }
};
inline constexpr Less kLess;

/** The sum of two values; integers wrap around. */
struct Plus {
  template <class C> MZ_HD constexpr C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>)  // unsigned arithmetic wraps around instead of overflowing
      return static_cast<C>(static_cast<std::make_unsigned_t<C>>(a) +
                            static_cast<std::make_unsigned_t<C>>(b));
    else
      return a + b;
  }
};
inline constexpr Plus kPlus;

/** The product of two values; integers wrap around. */
struct Times {
  template <class C> MZ_HD constexpr C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>)  // unsigned, as in Plus
      return static_cast<C>(static_cast<std::make_unsigned_t<C>>(a) *
                            static_cast<std::make_unsigned_t<C>>(b));
    else
      return a * b;
  }
};
inline constexpr Times kTimes;

/** Whether b replaces a, which comes earlier, as the maximum: it is greater, or the first nan. */
struct Above {
  template <class C> MZ_HD constexpr bool operator()(C b, C a) const {
    return b > a || (b != b && a == a);
  }
};
/** Whether b replaces a, which comes earlier, as the minimum: it is less, or the first nan. */
struct Below {
  template <class C> MZ_HD constexpr bool operator()(C b, C a) const {
    return b < a || (b != b && a == a);
  }
};

/** Whether b, which comes later, replaces a as the running maximum: it is not less, or nan. */
struct ReachesUp {
  template <class C> MZ_HD constexpr bool operator()(C b, C a) const { return b >= a || b != b; }
};
/** Whether b, which comes later, replaces a as the running minimum: it is not greater, or nan. */
struct ReachesDown {
  template <class C> MZ_HD constexpr bool operator()(C b, C a) const { return b <= a || b != b; }
};

/** Returns the neutral element of Greater. */
template <class C> MZ_HD constexpr C lowest() {
  if constexpr (std::is_floating_point_v<C>)
    return -std::numeric_limits<C>::infinity();
  else
    return std::numeric_limits<C>::min();
}

/** Returns the neutral element of Less. */
template <class C> MZ_HD constexpr C highest() {
  if constexpr (std::is_floating_point_v<C>)
    return std::numeric_limits<C>::infinity();
  else
    return std::numeric_limits<C>::max();
}

}  // namespace mezzo::cpu_kernels
