// The 16-bit floating storage types f16 and bf16, and their exact conversions. Parsed by g++ and by
// nvcc, so it uses no intrinsics.
// See also: ../cpu/convert.h (the same conversions in bulk).
#pragma once

#include <concepts>
#include <cstdint>

#include "macros.h"

namespace mezzo {

namespace detail {

/** Returns the bits of `value` as a To, like std::bit_cast, but callable in device code without
 *  relaxed constexpr. */
template <class To, class From> MZ_HD constexpr To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, value);
}

/** Layout of an IEEE-754 style binary format. */
template <class Bits, int kMantissaBits, int kExponentBits> struct FloatFormat {
  using bits_type = Bits;
  static constexpr int mantissa_bits = kMantissaBits;
  static constexpr int bias = (1 << (kExponentBits - 1)) - 1;
  static constexpr Bits infinity = ((Bits{1} << kExponentBits) - 1) << kMantissaBits;
  static constexpr int sign_position = kMantissaBits + kExponentBits;
};
using F16Format = FloatFormat<std::uint32_t, 10, 5>;  // in 32 bits during conversion
using Bf16Format = FloatFormat<std::uint32_t, 7, 8>;
using F32Format = FloatFormat<std::uint32_t, 23, 8>;
using F64Format = FloatFormat<std::uint64_t, 52, 11>;

/** Returns `value >> shift` rounded to nearest, ties to even. 1 <= shift < bits of U. */
template <class U> MZ_HD constexpr U shift_right_rounded(U value, int shift) {
  const U below_half = (U{1} << (shift - 1)) - 1;
  return (value + below_half + ((value >> shift) & 1)) >> shift;
}

/** Returns the Source value rounded once, to nearest even, to the bits of the 16-bit format Target.
 *  Uses integer arithmetic only, so the rounding mode and flush-to-zero have no effect. NaN becomes
 *  quiet and keeps the top bits of its payload, overflow gives infinity, subnormals are kept. */
template <class Target, class Source>
MZ_HD constexpr std::uint16_t narrow(typename Source::bits_type x) {
  using U = typename Source::bits_type;
  constexpr int kDropped = Source::mantissa_bits - Target::mantissa_bits;
  constexpr int kBiasStep = Source::bias - Target::bias;
  constexpr U kTargetInfinity = Target::infinity;
  constexpr U kQuietBit = U{1} << (Target::mantissa_bits - 1);

  const U sign = (x >> Source::sign_position) << 15;
  const U magnitude = x & ((U{1} << Source::sign_position) - 1);
  const int exponent = static_cast<int>(magnitude >> Source::mantissa_bits);

  U result{};
  if (magnitude > Source::infinity) {
    result = kTargetInfinity | kQuietBit | ((magnitude >> kDropped) & (kQuietBit - 1));
  } else if (kBiasStep == 0 || exponent > kBiasStep) {
    // A carry out of the mantissa increments the exponent; out of the largest exponent it yields
    // infinity. Both are correct.
    result = shift_right_rounded<U>(magnitude - (U{kBiasStep} << Source::mantissa_bits), kDropped);
    result = result < kTargetInfinity ? result : kTargetInfinity;
  } else {
    // Below the smallest normal of Target: rounds to units of its smallest subnormal. Beyond the
    // cap everything rounds to zero.
    constexpr int kCap = Source::mantissa_bits + 2;
    const U mantissa =
        (magnitude & ((U{1} << Source::mantissa_bits) - 1)) | (U{1} << Source::mantissa_bits);
    const int shift = kDropped + 1 + kBiasStep - exponent;
    result = shift_right_rounded<U>(mantissa, shift < kCap ? shift : kCap);
  }
  return static_cast<std::uint16_t>(sign | result);
}

/** Returns the integer as a double, truncated to 53 bits, with the lost bits folded into the last
 *  one. A second rounding to a narrower format then gives the same result as a single rounding. */
template <std::integral I> MZ_HD constexpr double round_to_odd(I value) {
  bool negative = false;
  if constexpr (std::signed_integral<I>) negative = value < 0;
  const std::uint64_t wide = static_cast<std::uint64_t>(value);
  const std::uint64_t magnitude = negative ? 0 - wide : wide;
  const std::uint64_t sticky = (magnitude & 0x7FF) != 0 ? 0x800 : 0;
  const std::uint64_t kept =
      magnitude >> 53 == 0 ? magnitude : ((magnitude & ~std::uint64_t{0x7FF}) | sticky);
  return negative ? -static_cast<double>(kept) : static_cast<double>(kept);
}

/** Returns the exact f32 value of f16 bits; a signalling NaN becomes quiet, as in hardware. */
MZ_HD constexpr float widen_f16(std::uint16_t h) {
  const std::uint32_t sign = (h & 0x8000u) << 16;
  const std::uint32_t magnitude = h & 0x7FFFu;
  std::uint32_t result = (magnitude << 13) + (112u << 23);
  if (magnitude < 0x0400u) {
    result = bits_as<std::uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  } else if (magnitude >= 0x7C00u) {
    result = 0x7F800000u | (magnitude << 13) | (magnitude > 0x7C00u ? 0x00400000u : 0u);
  }
  return bits_as<float>(sign | result);
}

/** Returns the exact f32 value of bf16 bits, which are its upper half. A signalling NaN stays
 *  signalling. */
MZ_HD constexpr float widen_bf16(std::uint16_t b) {
  return bits_as<float>(static_cast<std::uint32_t>(b) << 16);
}

}  // namespace detail

/** IEEE binary16: 5 exponent and 10 mantissa bits, largest finite value 65504. A storage type
 *  without arithmetic: compute in float. Construction rounds once to nearest even from any source
 *  type; magnitudes of 65520 and above give infinity. */
struct Half {
  std::uint16_t bits;

  Half() = default;
  MZ_HD constexpr explicit Half(float x)
      : bits(detail::narrow<detail::F16Format, detail::F32Format>(
            detail::bits_as<std::uint32_t>(x))) {}
  MZ_HD constexpr explicit Half(double x)
      : bits(detail::narrow<detail::F16Format, detail::F64Format>(
            detail::bits_as<std::uint64_t>(x))) {}
  template <std::integral I> MZ_HD constexpr explicit Half(I x) : Half(detail::round_to_odd(x)) {}

  MZ_HD static constexpr Half from_bits(std::uint16_t bits) {
    Half h{};
    h.bits = bits;
    return h;
  }

  MZ_HD constexpr explicit operator float() const { return detail::widen_f16(bits); }
  MZ_HD constexpr explicit operator double() const {
    return static_cast<double>(detail::widen_f16(bits));
  }
};

/** bfloat16: the upper half of a float, 8 exponent and 7 mantissa bits. A storage type without
 *  arithmetic: compute in float. Construction rounds once to nearest even from any source type. */
struct BFloat16 {
  std::uint16_t bits;

  BFloat16() = default;
  MZ_HD constexpr explicit BFloat16(float x)
      : bits(detail::narrow<detail::Bf16Format, detail::F32Format>(
            detail::bits_as<std::uint32_t>(x))) {}
  MZ_HD constexpr explicit BFloat16(double x)
      : bits(detail::narrow<detail::Bf16Format, detail::F64Format>(
            detail::bits_as<std::uint64_t>(x))) {}
  template <std::integral I>
  MZ_HD constexpr explicit BFloat16(I x) : BFloat16(detail::round_to_odd(x)) {}

  MZ_HD static constexpr BFloat16 from_bits(std::uint16_t bits) {
    BFloat16 b{};
    b.bits = bits;
    return b;
  }

  MZ_HD constexpr explicit operator float() const { return detail::widen_bf16(bits); }
  MZ_HD constexpr explicit operator double() const {
    return static_cast<double>(detail::widen_bf16(bits));
  }
};

static_assert(sizeof(Half) == 2 && sizeof(BFloat16) == 2);

}  // namespace mezzo
