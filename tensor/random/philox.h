// Philox 4x32-10: random numbers as a function of (seed, draw, element), with the same bits on
// every device and for every launch shape. Parsed by g++ and by nvcc.
#pragma once

#include <cmath>
#include <cstdint>

#include "../core/half.h"
#include "../core/macros.h"
#include "philox_stream.h"

namespace mezzo {

/** Four random words. */
struct PhiloxBlock {
  std::uint32_t word[4];
};

namespace detail {

inline constexpr int kPhiloxRounds = 10;

/** The key of a round. */
struct PhiloxKey {
  std::uint32_t word0, word1;

  MZ_HD constexpr PhiloxKey next() const { return {word0 + 0x9E3779B9u, word1 + 0xBB67AE85u}; }
};

/** Returns the 64-bit product. */
MZ_HD constexpr MZ_ALWAYS_INLINE std::uint64_t wide_product(std::uint32_t a, std::uint32_t b) {
#ifdef __CUDA_ARCH__
  std::uint64_t product;  // from the product of 64-bit numbers nvcc makes more instructions
  asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
  return product;
#else
  return std::uint64_t{a} * b;
#endif
}

/** Returns the counter after one round. Source: Salmon, Moraes, Dror, Shaw, Parallel random
 *  numbers: as easy as 1, 2, 3 (SC 2011). */
MZ_HD constexpr MZ_ALWAYS_INLINE PhiloxBlock philox_round(PhiloxBlock c, PhiloxKey key) {
  const std::uint64_t p0 = wide_product(0xD2511F53u, c.word[0]);
  const std::uint64_t p1 = wide_product(0xCD9E8D57u, c.word[2]);
  return {{static_cast<std::uint32_t>(p1 >> 32) ^ c.word[1] ^ key.word0,
           static_cast<std::uint32_t>(p1),
           static_cast<std::uint32_t>(p0 >> 32) ^ c.word[3] ^ key.word1,
           static_cast<std::uint32_t>(p0)}};
}

/** Returns the counter after all rounds. */
MZ_HD constexpr PhiloxBlock philox4x32_10(PhiloxBlock c, std::uint32_t key0, std::uint32_t key1) {
  PhiloxKey key{key0, key1};
  for (int round = 0; round < kPhiloxRounds; ++round, key = key.next()) c = philox_round(c, key);
  return c;
}

/** A double whose arithmetic is rounded after each operation on the device too, where a * b + c
 *  would otherwise be fused. */
struct Strict {
  double v;

#ifdef __CUDA_ARCH__
  MZ_HD friend Strict operator+(Strict a, Strict b) { return {__dadd_rn(a.v, b.v)}; }
  MZ_HD friend Strict operator-(Strict a, Strict b) { return {__dsub_rn(a.v, b.v)}; }
  MZ_HD friend Strict operator*(Strict a, Strict b) { return {__dmul_rn(a.v, b.v)}; }
  MZ_HD friend Strict operator/(Strict a, Strict b) { return {__ddiv_rn(a.v, b.v)}; }
  MZ_HD friend Strict square_root(Strict a) { return {__dsqrt_rn(a.v)}; }
#else
  MZ_HD friend Strict operator+(Strict a, Strict b) { return {a.v + b.v}; }
  MZ_HD friend Strict operator-(Strict a, Strict b) { return {a.v - b.v}; }
  MZ_HD friend Strict operator*(Strict a, Strict b) { return {a.v * b.v}; }
  MZ_HD friend Strict operator/(Strict a, Strict b) { return {a.v / b.v}; }
  MZ_HD friend Strict square_root(Strict a) { return {std::sqrt(a.v)}; }
#endif
};

MZ_HD inline Strict strict_polynomial(Strict, double c0) { return {c0}; }
template <class... Rest> MZ_HD inline Strict strict_polynomial(Strict x, double c0, Rest... rest) {
  return Strict{c0} + x * strict_polynomial(x, rest...);
}

/** Returns ln(u) for a normal positive u: u = 2^k m, ln m = 2 atanh((m - 1) / (m + 1)). Relative
 *  error 2e-16. */
MZ_HD inline Strict strict_log(double u) {
  constexpr std::uint64_t kSqrtHalf = 0x3FE6A09E667F3BCDull;
  const auto bits = bits_as<std::uint64_t>(u);
  const auto k = static_cast<std::int64_t>(bits - kSqrtHalf) >> 52;
  const Strict m{bits_as<double>(bits - (static_cast<std::uint64_t>(k) << 52))};
  const Strict s = (m - Strict{1.0}) / (m + Strict{1.0});
  const Strict z = s * s;
  const Strict tail = strict_polynomial(
      z, 0.6666666666666734, 0.3999999999941634, 0.28571428742023613, 0.22222198609872876,
      0.18183562456369545, 0.15314097429532395, 0.14795490135180123);
  return Strict{static_cast<double>(k)} * Strict{0.693147180559945309417} +
         (s * (z * tail) + (s + s));
}

}  // namespace detail

namespace detail {

/** Returns the counter of a block: (block, draw). */
MZ_HD constexpr MZ_ALWAYS_INLINE PhiloxBlock philox_counter(PhiloxStream stream,
                                                            std::uint64_t block) {
  return {{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32),
           static_cast<std::uint32_t>(stream.draw), static_cast<std::uint32_t>(stream.draw >> 32)}};
}

/** Returns the first key: the seed. */
MZ_HD constexpr PhiloxKey philox_key(PhiloxStream stream) {
  return {static_cast<std::uint32_t>(stream.seed), static_cast<std::uint32_t>(stream.seed >> 32)};
}

}  // namespace detail

/** Returns block number `block` of a stream. */
MZ_HD constexpr PhiloxBlock philox_block(PhiloxStream stream, std::uint64_t block) {
  const detail::PhiloxKey key = detail::philox_key(stream);
  return detail::philox4x32_10(detail::philox_counter(stream, block), key.word0, key.word1);
}

/** Returns a uniform number in [0,1), a multiple of 2^-24. */
MZ_HD constexpr float uniform_f32(std::uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

/** Returns a uniform number in [0,1), a multiple of 2^-53. */
MZ_HD constexpr double uniform_f64(std::uint32_t word0, std::uint32_t word1) {
  const std::uint64_t bits = (static_cast<std::uint64_t>(word0 >> 5) << 26) | (word1 >> 6);
  return static_cast<double>(bits) * 0x1p-53;
}

/** Returns a uniform integer in [0, n): the upper half of the 128-bit product of n and the 64-bit
 *  number word1:word0. Without rejection: the bias is below n / 2^64. n >= 1. */
MZ_HD constexpr std::uint64_t uniform_below(std::uint64_t n, std::uint32_t word0,
                                            std::uint32_t word1) {
  const std::uint64_t n_low = n & 0xFFFFFFFFu, n_high = n >> 32;
  const std::uint64_t cross = n_high * word0 + ((n_low * word0) >> 32);
  const std::uint64_t middle = n_low * word1 + (cross & 0xFFFFFFFFu);
  return n_high * word1 + (cross >> 32) + (middle >> 32);
}

/** Returns the threshold for bernoulli(): `word < threshold` holds with probability p, rounded to a
 *  multiple of 2^-32. 0 <= p <= 1; a threshold of 2^32 always holds. */
MZ_HD constexpr std::uint64_t bernoulli_threshold(double p) {
  return static_cast<std::uint64_t>(p * 0x1p32 + 0.5);
}

/** Returns true with the probability that `threshold` represents. Compares 32 bits, the words of
 *  the device. */
MZ_HD constexpr bool bernoulli(std::uint32_t word, std::uint64_t threshold) {
  return word < static_cast<std::uint32_t>(threshold) || threshold >> 32 != 0;
}

/** Two independent standard normal numbers. */
struct NormalPair {
  double first, second;
};

/** Returns two normal numbers by the Box-Muller transform: u in (0,1], turn in [0,1). The same bits
 *  on host and device; error a few 1e-16. */
MZ_HD inline NormalPair normal_pair(double u, double turn) {
  using detail::Strict;
  using detail::strict_polynomial;
  const Strict radius = square_root(Strict{-2.0} * detail::strict_log(u));
  const auto quadrant = static_cast<int>(4.0 * turn + 0.5);
  // angle = pi (quadrant / 2 + r), |r| <= 1/4; exact.
  const Strict r = Strict{2.0 * turn} - Strict{0.5 * quadrant};
  const Strict z = r * r;
  const Strict sine =
      r * strict_polynomial(z, 3.141592653589793, -5.167712780049954, 2.550164039873266,
                            -0.5992645289321498, 0.08214586894933211, -0.007370018313189859,
                            0.00046151442567038853);
  const Strict cosine = strict_polynomial(
      z, 1.0, -4.934802200544679, 4.058712126416749, -1.3352627688520045, 0.2353306301929134,
      -0.02580688567121348, 0.0019294657206261323, -0.00010356657495573914);
  const bool swapped = (quadrant & 1) != 0;
  const Strict x = swapped ? Strict{-sine.v} : cosine;
  const Strict y = swapped ? cosine : sine;
  const Strict signed_radius = (quadrant & 2) != 0 ? Strict{-radius.v} : radius;
  return {(signed_radius * x).v, (signed_radius * y).v};
}

/** Returns two normal numbers from two words, for results of up to 32 bits; round each once. */
MZ_HD inline NormalPair normal_pair(std::uint32_t word0, std::uint32_t word1) {
  return normal_pair((static_cast<double>(word0) + 1.0) * 0x1p-32,
                     static_cast<double>(word1) * 0x1p-32);
}

/** Returns two normal numbers from a whole block, for f64 results. */
MZ_HD inline NormalPair normal_pair(const PhiloxBlock& block) {
  return normal_pair(uniform_f64(block.word[0], block.word[1]) + 0x1p-53,
                     uniform_f64(block.word[2], block.word[3]));
}

}  // namespace mezzo
