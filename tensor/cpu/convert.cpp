#include "convert.h"

#include <algorithm>
#include <array>
#include <concepts>
#include <cstring>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../core/convert_value.h"
#include "narrow.h"
#include "simd.h"

#if defined(__F16C__) || defined(__AVX512F__)
#  include <immintrin.h>
#endif

namespace mezzo::cpu_kernels {

namespace {

constexpr std::int64_t kStage = 1024;  // elements per buffer, which fits the L1 cache

using mezzo::detail::kIsHalf;

template <class From, class To> void convert_direct(const From* from, To* to, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = converted<To>(from[i]);
}

/** Converts through blocks of Via: first(from, buffer, n), then second(buffer, to, n). */
template <class Via, class From, class To, class First, class Second>
void staged(const From* from, To* to, std::int64_t n, First first, Second second) {
  alignas(64) Via buffer[kStage];
  for (std::int64_t at = 0; at < n; at += kStage) {
    const std::int64_t count = std::min(kStage, n - at);
    first(from + at, buffer, count);
    second(buffer, to + at, count);
  }
}

/** Converts integers to 16 bits with one rounding. Goes through float where that cannot round
 *  twice: bytes are exact in float, and integers beyond its exact range are infinite in f16.
 *  Otherwise goes through a double rounded to odd. */
template <std::integral From, class To>
void convert_integer_to_half(const From* from, To* to, std::int64_t n) {
  if constexpr (sizeof(From) == 1 || std::is_same_v<To, Half>) {
    staged<float>(from, to, n, convert_direct<From, float>,
                  [](const float* x, To* y, std::int64_t count) { narrow(x, y, count); });
  } else {
    const auto to_double = [](const From* x, double* y, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) y[i] = mezzo::detail::round_to_odd(x[i]);
    };
    staged<double>(from, to, n, to_double,
                   [](const double* x, To* y, std::int64_t count) { convert_direct(x, y, count); });
  }
}

/** Converts one pair of types by exact steps and a single rounding. */
template <class From, class To> void convert_block(const From* from, To* to, std::int64_t n) {
  if constexpr (std::is_same_v<From, To>) {
    std::memcpy(to, from, static_cast<std::size_t>(n) * sizeof(To));
  } else if constexpr (std::is_same_v<From, bool>) {
    const auto to_byte = [](const bool* x, std::uint8_t* y, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i)
        y[i] = reinterpret_cast<const unsigned char*>(x)[i] != 0;  // a file may contain any byte
    };
    staged<std::uint8_t>(from, to, n, to_byte, convert_block<std::uint8_t, To>);
  } else if constexpr (kIsHalf<From>) {
    if constexpr (std::is_same_v<To, float>)
      widen(from, to, n);
    else
      staged<float>(
          from, to, n, [](const From* x, float* y, std::int64_t count) { widen(x, y, count); },
          convert_block<float, To>);
  } else if constexpr (kIsHalf<To> && std::is_same_v<From, float>) {
    narrow(from, to, n);
  } else if constexpr (kIsHalf<To> && std::integral<From>) {
    convert_integer_to_half(from, to, n);
  } else {
    convert_direct(from, to, n);
  }
}

// ---- every pair ---------------------------------------------------------------------------------

using ConvertFunction = void (*)(const void*, void*, std::int64_t);
using Elements = std::tuple<bool, std::uint8_t, std::int32_t, std::int64_t, Half, BFloat16, float,
                            double>;  // in the order of DType

template <std::size_t type> using Element = std::tuple_element_t<type, Elements>;

template <std::size_t... pair> constexpr auto all_pairs(std::index_sequence<pair...>) {
  static_assert(
      ((dtype_of<Element<pair / kNumDTypes>>() == static_cast<DType>(pair / kNumDTypes)) && ...));
  return std::array<ConvertFunction, sizeof...(pair)>{
      [](const void* from, void* to, std::int64_t n) {
        convert_block(static_cast<const Element<pair / kNumDTypes>*>(from),
                      static_cast<Element<pair % kNumDTypes>*>(to), n);
      }...};
}
constexpr auto kConvert = all_pairs(std::make_index_sequence<kNumDTypes * kNumDTypes>());

}  // namespace

void convert(DType from_type, const void* from, DType to_type, void* to, std::int64_t n) {
  if (n > 0)
    kConvert[static_cast<std::size_t>(from_type) * kNumDTypes + static_cast<std::size_t>(to_type)](
        from, to, n);
}

// ---- conversions between f32 and 16-bit types ---------------------------------------------------

namespace {

#if defined(__AVX512F__)
constexpr __mmask16 kAllLanes = 0xFFFF;  // g++ 12 warns about undefined operands of unmasked forms
#endif

}  // namespace

void widen(const Half* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    _mm512_storeu_ps(
        to + i, _mm512_maskz_cvtph_ps(
                    kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
  }
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
#endif
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

void narrow(const float* from, Half* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m256i half = _mm512_maskz_cvtps_ph(kAllLanes, _mm512_loadu_ps(from + i),
                                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), half);
  }
#elif defined(__F16C__)
  for (; i + 8 <= n; i += 8) {
    const __m128i half = _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), half);
  }
#endif
  for (; i < n; ++i) to[i] = Half(from[i]);
}

void widen(const BFloat16* from, float* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512F__)
  for (; i + 16 <= n; i += 16) {
    const __m512i low = _mm512_maskz_cvtepu16_epi32(
        kAllLanes, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i)));
    _mm512_storeu_si512(to + i, _mm512_maskz_slli_epi32(kAllLanes, low, 16));
  }
#endif
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

void narrow(const float* from, BFloat16* to, std::int64_t n) {
  std::int64_t i = 0;
#if defined(__AVX512BF16__)
  for (; i + 32 <= n; i += 32)
    if (!narrow_normal(from + i, to + i))
      for (std::int64_t j = i; j < i + 32; ++j) to[j] = BFloat16(from[j]);
#endif
  for (; i < n; ++i) to[i] = BFloat16(from[i]);
}

namespace {

template <class T> void round_block(float* x, std::int64_t n) {
  using S = Simd<float>;
  std::int64_t i = 0;
  for (; i + S::kWidth <= n; i += S::kWidth) S::store(x + i, S::rounded<T>(S::load(x + i)));
  if (i < n) S::store_first(x + i, S::rounded<T>(S::load_first(x + i, n - i)), n - i);
}

}  // namespace

void round_to(DType dtype, float* x, std::int64_t n) {
  if (dtype == DType::bf16) round_block<BFloat16>(x, n);
  if (dtype == DType::f16) round_block<Half>(x, n);
}

}  // namespace mezzo::cpu_kernels
