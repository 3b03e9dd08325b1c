// Simd<T>: the target's widest vector of float or double, with the operations that the matrix
// kernels need.
#pragma once

#if defined(__x86_64__)
#  include <immintrin.h>
#endif

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "../core/half.h"

// Fully unrolls loops of constant length over registers; otherwise the registers spill to memory.
#ifdef __clang__
#  define MZ_UNROLL _Pragma("clang loop unroll(full)")
#else
#  define MZ_UNROLL _Pragma("GCC unroll 64")
#endif

namespace mezzo::cpu_kernels {

#if defined(__AVX512F__)
inline constexpr int kVectorBytes = 64;
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
inline constexpr int kVectorBytes = 32;
#else
inline constexpr int kVectorBytes = 16;
#endif

template <class T> struct Simd {
  typedef T V __attribute__((vector_size(kVectorBytes)));
  static constexpr int kWidth = kVectorBytes / static_cast<int>(sizeof(T));

  static V load(const T* p) {
    V v;
    std::memcpy(&v, p, sizeof v);
    return v;
  }
  static void store(T* p, V v) { std::memcpy(p, &v, sizeof v); }

  /** Stores the first n elements, 0 <= n <= kWidth. */
  static void store_first(T* p, V v, std::int64_t n) {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<T, float>)
      _mm512_mask_storeu_ps(p, first<__mmask16>(n), (__m512)v);
    else
      _mm512_mask_storeu_pd(p, first<__mmask8>(n), (__m512d)v);
#else
    alignas(kVectorBytes) T all[kWidth];
    store(all, v);
    for (std::int64_t i = 0; i < n; ++i) p[i] = all[i];
#endif
  }

  /** Returns x rounded to X, a 16-bit type, bit for bit as its constructor does. */
  template <class X> static V rounded(V x) {
    static_assert(std::is_same_v<T, float>);
    if constexpr (std::is_same_v<X, BFloat16>) {
      typedef std::uint32_t Bits __attribute__((vector_size(kVectorBytes)));
      const Bits bits = (Bits)x, nearest = bits + 0x7FFF + (bits >> 16 & 1);
      return (V)((x != x ? bits | 0x400000 : nearest) & 0xFFFF0000);
    } else {
#if defined(__AVX512F__)
      return (V)_mm512_maskz_cvtph_ps(
          __mmask16{0xFFFF}, _mm512_maskz_cvtps_ph(__mmask16{0xFFFF}, (__m512)x,
                                                   _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
      return (V)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT));
#else
      for (int i = 0; i < kWidth; ++i) x[i] = static_cast<float>(X(x[i]));
      return x;
#endif
    }
  }

  /** Loads and widens the first n elements, 0 <= n <= kWidth, and sets the others to 0. */
  template <class X> static V load_first(const X* x, std::int64_t n) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    if constexpr (std::is_same_v<X, float>) {
      return (V)_mm512_maskz_loadu_ps(first<__mmask16>(n), x);
    } else if constexpr (std::is_same_v<X, double>) {
      return (V)_mm512_maskz_loadu_pd(first<__mmask8>(n), x);
    } else {
      X all[kWidth];
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(all),
                          _mm256_maskz_loadu_epi16(first<__mmask16>(n), x));
      return load(all);
    }
#else
#  if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
    if constexpr (std::is_same_v<X, float>)
      return (V)_mm256_maskload_ps(x, (__m256i)(lane_numbers() < static_cast<Lane>(n)));
    if constexpr (std::is_same_v<X, Half>) return (V)_mm256_cvtph_ps((__m128i)first_bits(x, n));
#  endif
    if constexpr (std::is_same_v<X, BFloat16>) return widened(first_bits(x, n));
    X all[kWidth] = {};
    for (std::int64_t i = 0; i < n; ++i) all[i] = x[i];
    return load(all);
#endif
  }

  /** Returns the first n lanes of a, and the others of b. */
  static V first_of(V a, V b, std::int64_t n) {
    return lane_numbers() < static_cast<Lane>(n) ? a : b;
  }

  /** Returns the sum of the lanes: the upper half is added to the lower one, down to one lane. */
  static T sum(V v) { return sum_halves<kWidth / 2>(v, std::make_integer_sequence<int, kWidth>{}); }

  /** Sets to[i] = x[i] for i < n, and 0 for n <= i < count; n and count are in 0..kWidth. Widens
   *  like load(). */
  template <class X> static void copy_first(const X* x, std::int64_t n, T* to, std::int64_t count) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
    store_first(to, load_first(x, n), count);
#else
    for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<T>(x[i]);
    for (std::int64_t i = n; i < count; ++i) to[i] = 0;
#endif
  }

  /** Loads and widens; exact. */
  static V load(const Half* p) {
    static_assert(std::is_same_v<T, float>);
#if defined(__AVX512F__)
    // With a full mask, because g++ 12 warns about its own header otherwise.
    return (V)_mm512_maskz_cvtph_ps(__mmask16{0xFFFF},
                                    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
    return (V)_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
#else
    V v;
    for (int i = 0; i < kWidth; ++i) v[i] = static_cast<float>(p[i]);
    return v;
#endif
  }
  static V load(const BFloat16* p) {
    static_assert(std::is_same_v<T, float>);
    Narrow bits;
    std::memcpy(&bits, p, sizeof bits);
    return widened(bits);
  }

  /** Returns p[0], p[2], ... Reads 2 * kWidth elements. */
  static V load_every_second(const T* p) {
    return every_second(load(p), load(p + kWidth), std::make_integer_sequence<int, kWidth>{});
  }

  static V splat(T x) { return x - V{}; }

  /** Returns a * b + c, with one rounding if the target has such an instruction. */
  static V fma(V a, V b, V c) {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<T, float>)
      return (V)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
    else
      return (V)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
    if constexpr (std::is_same_v<T, float>)
      return (V)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
    else
      return (V)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    return a * b + c;
#endif
  }

  /** Transposes the square of kWidth vectors by exchanging halves of vectors, then quarters, down
   *  to single elements. */
  static void transpose(V (&rows)[kWidth]) { transpose_blocks<kWidth / 2>(rows); }

 private:
  /** 16 bits of each lane. */
  typedef std::uint16_t Narrow __attribute__((vector_size(kVectorBytes / 2)));

  /** Returns the numbers of these bits of bf16. */
  static V widened(Narrow bits) {
    typedef std::uint32_t Wide __attribute__((vector_size(kVectorBytes)));
    return (V)(__builtin_convertvector(bits, Wide) << 16);
  }

  /** Returns the bits of the first n elements, then 0. Collects them in general registers, because
   *  a vector that is stored element by element is loaded late. */
  template <class X> static Narrow first_bits(const X* x, std::int64_t n) {
    typedef std::uint64_t Words __attribute__((vector_size(kVectorBytes / 2)));
    Words words{};
    MZ_UNROLL
    for (int k = 0; k < kWidth / 4; ++k) {
      const X* const from = x + 4 * k;
      const std::int64_t rest = n - 4 * k;
      std::uint64_t word = 0;
      if (rest >= 4) {
        std::memcpy(&word, from, 8);
      } else if (rest > 0) {
        std::uint32_t two = 0;
        std::uint16_t one = 0;
        if ((rest & 2) != 0) std::memcpy(&two, from, 4);
        if ((rest & 1) != 0) std::memcpy(&one, from + (rest & 2), 2);
        word = two | std::uint64_t{one} << (16 * (rest & 2));
      }
      words[k] = word;
    }
    return (Narrow)words;
  }

  using Lane = std::conditional_t<sizeof(T) == 4, int, long>;
  typedef Lane Lanes __attribute__((vector_size(kVectorBytes)));

  /** Returns 0, 1, ... */
  static Lanes lane_numbers() {
    return []<Lane... kLane>(std::integer_sequence<Lane, kLane...>) {
      return Lanes{kLane...};
    }(std::make_integer_sequence<Lane, kWidth>{});
  }

#if defined(__AVX512F__)
  template <class Mask> static Mask first(std::int64_t n) {
    return static_cast<Mask>((1u << n) - 1);
  }
#endif

  template <int... kLane>
  static V every_second(V low, V high, std::integer_sequence<int, kLane...>) {
    return __builtin_shufflevector(low, high, (2 * kLane)...);
  }

  template <int kHalf, int... kLane>
  static T sum_halves(V v, std::integer_sequence<int, kLane...> lanes) {
    v += __builtin_shufflevector(v, v, ((kLane + kHalf) % kWidth)...);
    if constexpr (kHalf > 1)
      return sum_halves<kHalf / 2>(v, lanes);
    else
      return v[0];
  }

  template <int kBlock> static void transpose_blocks(V (&rows)[kWidth]) {
    MZ_UNROLL
    for (int i = 0; i < kWidth; ++i)
      if ((i & kBlock) == 0)
        exchange<kBlock>(rows[i], rows[i + kBlock], std::make_integer_sequence<int, kWidth>{});
    if constexpr (kBlock > 1) transpose_blocks<kBlock / 2>(rows);
  }

  template <int kBlock, int... kLane>
  static void exchange(V& a, V& b, std::integer_sequence<int, kLane...>) {
    const V upper =
        __builtin_shufflevector(a, b, ((kLane & kBlock) == 0 ? kLane : kWidth + kLane - kBlock)...);
    b = __builtin_shufflevector(a, b, ((kLane & kBlock) == 0 ? kLane + kBlock : kWidth + kLane)...);
    a = upper;
  }
};

}  // namespace mezzo::cpu_kernels
