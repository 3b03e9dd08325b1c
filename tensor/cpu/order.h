// Comparisons that let nan win, sums and products, and where they start from: what reductions fold with.
// Sees: ../macros.h; parsed by nvcc too.
// Read next: reduce.cpp, ../../cuda/kernels/reduce.cu.
#pragma once

#include <limits>
#include <type_traits>

#include "../macros.h"

namespace mezzo::cpu_kernels {

/** The greater of two; a nan on either side is the result. */
struct Greater {
  template <class C> MZ_HD constexpr C operator()(C a, C b) const {
    if constexpr (std::is_floating_point_v<C>)
      return b > a || b != b ? b : a;  // where a is nan, b > a is false
    else
      return b > a ? b : a;
  }
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
};
inline constexpr Less kLess;

struct Plus {
  template <class C> MZ_HD constexpr C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>)  // wraps around instead of overflowing
      return static_cast<C>(static_cast<std::make_unsigned_t<C>>(a) +
                            static_cast<std::make_unsigned_t<C>>(b));
    else
      return a + b;
  }
};
inline constexpr Plus kPlus;

struct Times {
  template <class C> MZ_HD constexpr C operator()(C a, C b) const {
    if constexpr (std::is_integral_v<C>)  // as Plus
      return static_cast<C>(static_cast<std::make_unsigned_t<C>>(a) *
                            static_cast<std::make_unsigned_t<C>>(b));
    else
      return a * b;
  }
};
inline constexpr Times kTimes;

/** b is a better extreme than a, which comes earlier: strictly beyond it, or the first nan. */
struct Above {
  template <class C> MZ_HD constexpr bool operator()(C b, C a) const { return b > a || (b != b && a == a); }
};
struct Below {
  template <class C> MZ_HD constexpr bool operator()(C b, C a) const { return b < a || (b != b && a == a); }
};

/** b, which comes later, takes the place of a: it is as extreme, or nan. */
struct ReachesUp {
  template <class C> MZ_HD constexpr bool operator()(C b, C a) const { return b >= a || b != b; }
};
struct ReachesDown {
  template <class C> MZ_HD constexpr bool operator()(C b, C a) const { return b <= a || b != b; }
};

template <class C> MZ_HD constexpr C lowest() {
  if constexpr (std::is_floating_point_v<C>)
    return -std::numeric_limits<C>::infinity();
  else
    return std::numeric_limits<C>::min();
}

template <class C> MZ_HD constexpr C highest() {
  if constexpr (std::is_floating_point_v<C>)
    return std::numeric_limits<C>::infinity();
  else
    return std::numeric_limits<C>::max();
}

}  // namespace mezzo::cpu_kernels
