// The data of the collective tests, and what the operations must make of it.
#pragma once

#include <mezzo.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace mezzo::testing {

/** Returns the world, which the first call connects. */
inline const comm::World& world() {
  static const comm::World the_world = comm::init();
  return the_world;
}

/** Returns element i of rank r: floating-point values of either sign whose sums round, small
 *  integers otherwise. */
template <class T> T element(int rank, std::int64_t i, std::uint64_t seed = 0) {
  std::uint64_t x = seed * 0x9E3779B97F4A7C15u + static_cast<std::uint64_t>(i) * 31u +
                    static_cast<std::uint64_t>(rank) * 0xBF58476D1CE4E5B9u + 1;
  for (int round = 0; round < 3; ++round) x = (x ^ (x >> 29)) * 0x94D049BB133111EBu;
  x ^= x >> 32;
  if constexpr (std::is_same_v<T, bool>) {
    return x % 2 == 1;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(x % 201);
  } else {
    const double fraction = static_cast<double>(x >> 11) * 0x1p-53 - 0.5;
    return T(static_cast<float>(std::ldexp(fraction, static_cast<int>(x % 9) - 4)));
  }
}

/** Returns a tensor of n elements of this rank. */
template <class T> Tensor elements(int rank, std::int64_t n, std::uint64_t seed = 0) {
  const Tensor x = empty_tensor({n}, dtype_of<T>(), cpu);
  for (std::int64_t i = 0; i < n; ++i) x.data<T>()[i] = element<T>(rank, i, seed);
  return x;
}

template <class T> T combined(comm::Op op, T a, T b) {
  if constexpr (sizeof(T) == 2) {
    return T(combined(op, static_cast<float>(a), static_cast<float>(b)));
  } else {
    if (op == comm::Op::sum) return static_cast<T>(a + b);
    return (a < b) == (op == comm::Op::max) ? b : a;
  }
}

/** How a reduction is expected to add. */
struct Reduction {
  comm::Op op = comm::Op::sum;
  bool f32_sum = false;
};

/** Returns element i combined over ranks 0 to `ranks` - 1, in their order. */
template <class T>
T reduced(const Reduction& how, int ranks, std::int64_t i, std::uint64_t seed = 0) {
  if constexpr (sizeof(T) == 2) {
    if (how.f32_sum && how.op == comm::Op::sum) {
      float sum = static_cast<float>(element<T>(0, i, seed));
      for (int r = 1; r < ranks; ++r) sum += static_cast<float>(element<T>(r, i, seed));
      return T(sum);
    }
  }
  T result = element<T>(0, i, seed);
  for (int r = 1; r < ranks; ++r) result = combined(how.op, result, element<T>(r, i, seed));
  return result;
}

/** Returns how many of the n elements of `x` differ, bit for bit, from expected(i). */
template <class T, class F> std::int64_t differences(const Tensor& x, F expected) {
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    const T wanted = expected(i);
    count += std::memcmp(x.data<T>() + i, &wanted, sizeof(T)) != 0;
  }
  return count;
}

/** Returns how many elements of a sum over `ranks` ranks in any order are further from the exact
 *  sum than rounding explains. */
template <class T> std::int64_t inexact(const Tensor& x, int ranks, std::int64_t first = 0) {
  constexpr double kUnit = std::is_same_v<T, Half>       ? 0x1p-11
                           : std::is_same_v<T, BFloat16> ? 0x1p-8
                           : std::is_same_v<T, float>    ? 0x1p-24
                                                         : 0x1p-53;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    double sum = 0, size = 0;
    for (int r = 0; r < ranks; ++r) {
      const auto value = static_cast<double>(static_cast<float>(element<T>(r, first + i)));
      sum += value;
      size += std::fabs(value);
    }
    const auto got = static_cast<double>(x.data<T>()[i]);
    count += !(std::fabs(got - sum) <= ranks * kUnit * size);
  }
  return count;
}

}  // namespace mezzo::testing
