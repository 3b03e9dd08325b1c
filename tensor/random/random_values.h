// The values of each random distribution, per block of a Philox stream. The kernels of every device
// use them. Parsed by g++ and by nvcc.
//
// A distribution V defines V::Value, V::kPerBlock (elements made from one block of words) and
// V()(words), which returns them for a block of V().stream.
#pragma once

#include <cmath>

#include "../core/dtype.h"
#include "../core/half.h"
#include "philox.h"

namespace mezzo {

/** The values of one block: four for elements of up to 32 bits, two for 64 bits. */
template <class T, int count> struct RandomBlock {
  T value[count];
};

/** 1 with the probability of a threshold, else 0. */
struct BernoulliValues {
  using Value = float;
  static constexpr int kPerBlock = 4;
  PhiloxStream stream;
  std::uint64_t threshold;

  MZ_HD RandomBlock<float, 4> operator()(const PhiloxBlock& words) const {
    RandomBlock<float, 4> values{};
    for (int k = 0; k < 4; ++k) values.value[k] = bernoulli(words.word[k], threshold) ? 1.0f : 0.0f;
    return values;
  }
};

/** Uniform integers in [low, low + count). */
struct IntegerValues {
  using Value = std::int64_t;
  static constexpr int kPerBlock = 2;
  PhiloxStream stream;
  std::int64_t low;
  std::uint64_t count;

  /** Returns the distribution of integers in [low, high). */
  static IntegerValues between(PhiloxStream stream, double low, double high) {
    const auto first = static_cast<std::int64_t>(low);
    return {stream, first, static_cast<std::uint64_t>(static_cast<std::int64_t>(high) - first)};
  }
  MZ_HD RandomBlock<std::int64_t, 2> operator()(const PhiloxBlock& w) const {
    return {{low + static_cast<std::int64_t>(uniform_below(count, w.word[0], w.word[1])),
             low + static_cast<std::int64_t>(uniform_below(count, w.word[2], w.word[3]))}};
  }
};

/** Normal numbers for elements of up to 32 bits. */
struct NormalValues {
  using Value = float;
  static constexpr int kPerBlock = 4;
  PhiloxStream stream;
  double mean, deviation;

  MZ_HD float value(double z) const { return static_cast<float>(mean + deviation * z); }
  MZ_HD RandomBlock<float, 4> operator()(const PhiloxBlock& words) const {
    const NormalPair x = normal_pair(words.word[0], words.word[1]),
                     y = normal_pair(words.word[2], words.word[3]);
    return {{value(x.first), value(x.second), value(y.first), value(y.second)}};
  }
};

/** Normal numbers for f64 elements. */
struct WideNormalValues {
  using Value = double;
  static constexpr int kPerBlock = 2;
  PhiloxStream stream;
  double mean, deviation;

  MZ_HD RandomBlock<double, 2> operator()(const PhiloxBlock& words) const {
    const NormalPair z = normal_pair(words);
    return {{mean + deviation * z.first, mean + deviation * z.second}};
  }
};

namespace detail {

/** Returns low + u * (high - low). If rounding gives the excluded upper end, the next value below
 *  it is returned. */
template <class V> MZ_HD inline V scaled_uniform(V u, V low, V high) {
  const V width = high - low;
  // The width of a range such as [-3e38, 3e38) is infinite.
  const V value = width - width == V(0) ? low + u * width : (V(1) - u) * low + u * high;
  if (value < high) return value;
  const V below = std::nextafter(high, low);
  return below > low ? below : low;
}

/** Returns the number of the 16-bit type T next to `bits`, upwards or downwards. */
template <class T> MZ_HD inline float neighbour(std::uint16_t bits, bool up) {
  const bool negative = (bits & 0x8000) != 0;
  if ((bits & 0x7FFF) == 0)
    return static_cast<float>(T::from_bits(static_cast<std::uint16_t>(up ? 1 : 0x8001)));
  return static_cast<float>(
      T::from_bits(static_cast<std::uint16_t>(negative == up ? bits - 1 : bits + 1)));
}

/** Returns x in [low, high), rounded to the 16-bit type T towards low. If low is not a number of T,
 *  what lies below the next one is rounded up to that. */
template <class T> MZ_HD inline float rounded_towards(float x, float low, float high) {
  const T nearest(x);
  const float value = static_cast<float>(nearest);
  const float below = value > x ? neighbour<T>(nearest.bits, false) : value;
  if (below >= low) return below;
  const float above = value > x ? value : neighbour<T>(nearest.bits, true);
  return above < high ? above : below;
}

}  // namespace detail

/** Uniform numbers in [low, high) for elements of up to 32 bits. */
struct UniformValues {
  using Value = float;
  static constexpr int kPerBlock = 4;
  PhiloxStream stream;
  float low, high;
  DType dtype;  // of the elements; values are numbers of it, rounded towards low

  MZ_HD RandomBlock<float, 4> operator()(const PhiloxBlock& words) const {
    RandomBlock<float, 4> values{};
    for (int k = 0; k < 4; ++k) {
      const float x = detail::scaled_uniform(uniform_f32(words.word[k]), low, high);
      values.value[k] = dtype == DType::f16    ? detail::rounded_towards<Half>(x, low, high)
                        : dtype == DType::bf16 ? detail::rounded_towards<BFloat16>(x, low, high)
                                               : x;
    }
    return values;
  }
};

/** Uniform numbers in [low, high) for f64 elements. */
struct WideUniformValues {
  using Value = double;
  static constexpr int kPerBlock = 2;
  PhiloxStream stream;
  double low, high;

  MZ_HD RandomBlock<double, 2> operator()(const PhiloxBlock& w) const {
    return {{detail::scaled_uniform(uniform_f64(w.word[0], w.word[1]), low, high),
             detail::scaled_uniform(uniform_f64(w.word[2], w.word[3]), low, high)}};
  }
};

}  // namespace mezzo
