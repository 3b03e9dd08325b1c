// The elements of the panels of a matrix product: numbers, or pairs of bf16 numbers where the CPU
// has instructions that multiply pairs and sum them in f32.
#pragma once

#include <utility>

#include "../core/dtype.h"
#include "../core/numerics.h"
#include "simd.h"

namespace mezzo::cpu_kernels {

/** The bf16 factors of two consecutive terms of a sum: the first in the low half. */
struct BFloat16Pair {
  std::uint32_t bits;
};

/** The arithmetic of panel elements of type E: float, double or BFloat16Pair. */
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

template <class E> using SumOf = typename Factors<E>::Sum;

/** Returns the number of elements that hold the factors of `terms` terms. */
template <class E> constexpr std::int64_t steps_of(std::int64_t terms) {
  return (terms + Factors<E>::kTerms - 1) / Factors<E>::kTerms;
}

/** Calls f(std::type_identity<E>) with the panel elements of a product of operands of types a and
 *  b. Pairs need bf16 operands, the instruction, and exact_products() off. */
template <class F> decltype(auto) visit_factors(DType a, DType b, bool sums_in_f64, F&& f) {
  if (sums_in_f64) return f(std::type_identity<double>{});
#if defined(__AVX512BF16__)
  if (a == DType::bf16 && b == DType::bf16 && !exact_products())
    return f(std::type_identity<BFloat16Pair>{});
#else
  static_cast<void>(a), static_cast<void>(b);
#endif
  return f(std::type_identity<float>{});
}

}  // namespace mezzo::cpu_kernels
