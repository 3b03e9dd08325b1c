// The elements of the panels of a matrix product: numbers; pairs of bf16 numbers where the CPU has
// instructions that multiply pairs and sum them in f32; or lines of 32 terms, the rows of tiles.
#pragma once

#include <utility>

#include "../core/dtype.h"
#include "../core/numerics.h"
#include "../device/cpu_isa.h"
#include "simd.h"

namespace mezzo::cpu_kernels {

/** The bf16 factors of two consecutive terms of a sum: the first in the low half. */
struct BFloat16Pair {
  std::uint32_t bits;
};

#if defined(__AVX512BF16__)
/** The terms of a step of tiles: a row of a tile (gemm_tile.h). */
inline constexpr int kLineTerms = 32;

/** The bf16 factors of 32 consecutive terms of a sum. */
struct alignas(64) BFloat16Line {
  BFloat16 factors[kLineTerms];
};

/** The f16 factors of 32 consecutive terms. Each is exactly the sum of two bf16 numbers, which are
 *  `high` (the rounded factor) and `low` (what is left). */
struct alignas(64) HalfLine {
  BFloat16 high[kLineTerms], low[kLineTerms];
};
#endif

/** The arithmetic of panel elements of type E: float, double, BFloat16Pair; of BFloat16Line and
 *  HalfLine, only the sizes. */
template <class E> struct Factors {
  using Sum = E;                    // the type of the sums of products
  static constexpr int kTerms = 1;  // terms of a sum per element
  using V = typename Simd<E>::V;    // one element of each of Simd<Sum>::kWidth lanes
  static V load(const E* p) { return Simd<E>::load(p); }
  static V splat(const E* p) { return Simd<E>::splat(*p); }
  static V add_products(V a, V b, V sum) { return Simd<E>::fma(a, b, sum); }
};

#if defined(__AVX512BF16__)
/** The instruction counts subnormal operands, products and sums as zero. */
template <> struct Factors<BFloat16Pair> {
  using Sum = float;
  static constexpr int kTerms = 2;
  using V = Simd<float>::V;
  static V load(const BFloat16Pair* p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static V splat(const BFloat16Pair* p) {
    float pair;
    std::memcpy(&pair, p, sizeof pair);
    return (V)_mm512_set1_ps(pair);
  }
  static V add_products(V a, V b, V sum) {
    return (V)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
  }
};
#endif

#if defined(__AVX512BF16__)
template <> struct Factors<BFloat16Line> {
  using Sum = float;
  static constexpr int kTerms = kLineTerms;
};
template <> struct Factors<HalfLine> {
  using Sum = float;
  static constexpr int kTerms = kLineTerms;
};
#endif

/** Whether elements of E are multiplied by tiles: they are lines. */
template <class E> inline constexpr bool kIsLine = Factors<E>::kTerms > 2;
/** Whether operands computed in f32 are rounded to 16 bits to become panel elements. */
template <class E> inline constexpr bool kRounds = Factors<E>::kTerms > 1;

template <class E> using SumOf = typename Factors<E>::Sum;

/** Returns the number of elements that hold the factors of `terms` terms. */
template <class E> constexpr std::int64_t steps_of(std::int64_t terms) {
  return (terms + Factors<E>::kTerms - 1) / Factors<E>::kTerms;
}

/** Calls f(std::type_identity<E>) with the panel elements of a product of operands of types a and
 *  b, by the instructions that cpu_isa() says are fastest, or in f32 with exact_products().
 *  `tiles_pay`: whether the product is large enough for tiles. */
template <class F>
decltype(auto) visit_factors(DType a, DType b, bool sums_in_f64, bool tiles_pay, F&& f) {
  if (sums_in_f64) return f(std::type_identity<double>{});
#if defined(__AVX512BF16__)
  if (a == DType::bf16 && b == DType::bf16 && !exact_products()) {
    const CpuIsa isa = product_isa();
    if (isa == CpuIsa::v4_amx && tiles_pay) return f(std::type_identity<BFloat16Line>{});
    if (isa == CpuIsa::v4_bf16) return f(std::type_identity<BFloat16Pair>{});
  }
#else
  static_cast<void>(a), static_cast<void>(b), static_cast<void>(tiles_pay);
#endif
  return f(std::type_identity<float>{});
}

}  // namespace mezzo::cpu_kernels
