// Comparisons that let nan win, and where they start from.
// Sees: the standard library only.
// Read next: reduce.cpp.
#pragma once

#include <limits>
#include <type_traits>

namespace mezzo::cpu_kernels {

/** The greater of two; a nan on either side is the result. */
inline constexpr auto kGreater = []<class C>(C a, C b) {
  if constexpr (std::is_floating_point_v<C>)
    return b > a || b != b ? b : a;  // where a is nan, b > a is false
  else
    return b > a ? b : a;
};

/** The lesser of two; a nan on either side is the result. */
inline constexpr auto kLess = []<class C>(C a, C b) {
  if constexpr (std::is_floating_point_v<C>)
    return b < a || b != b ? b : a;
  else
    return b < a ? b : a;
};

inline constexpr auto kPlus = []<class C>(C a, C b) { return static_cast<C>(a + b); };

inline constexpr auto kTimes = []<class C>(C a, C b) {
  if constexpr (std::is_integral_v<C>)  // wraps around instead of overflowing
    return static_cast<C>(static_cast<std::make_unsigned_t<C>>(a) * static_cast<std::make_unsigned_t<C>>(b));
  else
    return a * b;
};

template <class C> constexpr C lowest() {
  if constexpr (std::is_floating_point_v<C>)
    return -std::numeric_limits<C>::infinity();
  else
    return std::numeric_limits<C>::min();
}

template <class C> constexpr C highest() {
  if constexpr (std::is_floating_point_v<C>)
    return std::numeric_limits<C>::infinity();
  else
    return std::numeric_limits<C>::max();
}

}  // namespace mezzo::cpu_kernels
