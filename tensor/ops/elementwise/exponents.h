// exponent_histogram, change_histograms: where magnitudes lie. ops.h explains the notation and the
// precision tags.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "../../core/op.h"
#include "../../core/tensor.h"

namespace mezzo {

/** The result of exponent_histogram. */
struct ExponentHistogram {
  static constexpr int kLeast = -149;    // floor(log2(|x|)) of the smallest f32 number
  static constexpr int kGreatest = 127;  // floor(log2(|x|)) of the greatest f32 number
  /** i64 [280]: the number of zeros, of elements with floor(log2(|x|)) = -149, -148, ..., 127, of
   *  infinities, of NaN. */
  Tensor counts;
  Tensor largest;  // f32 []: the largest finite magnitude; 0 if there is none
};

/** Counts the elements of x by floor(log2(|x|)), in one pass, without waiting for the device.
 *  Exponents of f64 beyond those of f32 count as the nearest of f32, and the largest magnitude is
 *  at most that of f32.
 *  Precision: match; exact.
 *  Errors: DtypeError unless floating-point. */
MZ_API ExponentHistogram exponent_histogram(const Tensor& x);

/** The result of change_histograms. */
struct ChangeHistograms {
  ExponentHistogram change;  // of after - before
  ExponentHistogram ratio;   // of (after - before) / before; infinite or NaN where before is 0
};

/** Returns the exponent histograms of a change, in one pass, without waiting for the device. Both
 *  tensors have the same shape. The change is computed in the compute dtype: f32, or f64 for f64.
 *  Precision: match.
 *  Errors: DtypeError unless floating-point; ShapeError unless the shapes are equal. */
MZ_API ChangeHistograms change_histograms(const Tensor& before, const Tensor& after);

}  // namespace mezzo

namespace mezzo::op {

/** Counts elements by floor(log2(|x|)), and finds the largest finite magnitude. Output 0: i64
 *  [kExponentBins]; output 1: the magnitude, 0-dim f32. f64 is read as f64; exponents beyond those
 *  of f32 count as the nearest of f32. */
struct ExponentHistogram {
  static constexpr OpTraits traits{.name = "exponent_histogram",
                                   .precision = Precision::match,
                                   .summary = "counts of magnitudes by power of two",
                                   .outputs = 2,
                                   .differentiable = false};
  static OutSpecs infer(Inputs in, const NoAttrs& attrs);
  static void cpu(Inputs in, Outputs out, const NoAttrs& attrs);
};

/** Does the same for the changes of a tensor: after - before, and (after - before) / before,
 * computed in the compute type. Inputs: before, after. Outputs 0 and 1: of the change; 2 and 3: of
 * the ratio; each as those of ExponentHistogram. */
struct ChangeHistograms {
  static constexpr OpTraits traits{.name = "change_histograms",
                                   .precision = Precision::match,
                                   .summary = "exponent_histogram of b - a, and of (b - a) / a",
                                   .inputs = 2,
                                   .outputs = 4,
                                   .differentiable = false};
  static OutSpecs infer(Inputs in, const NoAttrs& attrs);
  static void cpu(Inputs in, Outputs out, const NoAttrs& attrs);
};

/** Bins of the counts: zeros, exponents kLeastExponent..kGreatestExponent, infinities, NaN. */
inline constexpr int kLeastExponent = -149, kGreatestExponent = 127;
inline constexpr int kExponents = kGreatestExponent - kLeastExponent + 1;
inline constexpr int kZeroBin = 0, kInfinityBin = kExponents + 1, kNanBin = kExponents + 2;
inline constexpr int kExponentBins = kExponents + 3;

/** Returns the bin of a number. Reads its bits only. */
MZ_HD inline int exponent_bin(float x) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x) & 0x7FFFFFFFu;
  if (bits == 0) return kZeroBin;
  if (bits > 0x7F800000u) return kNanBin;
  if (bits == 0x7F800000u) return kInfinityBin;
  const int exponent = static_cast<int>(bits >> 23);
  // The exponent of a subnormal is that of its leading bit, in units of 2^-149.
  int leading = 0;
  if (exponent == 0)
    for (std::uint32_t rest = bits; rest > 1; rest >>= 1) ++leading;
  return 1 + (exponent == 0 ? leading : exponent - 127 - kLeastExponent);
}
MZ_HD inline int exponent_bin(double x) {
  const std::uint64_t bits = std::bit_cast<std::uint64_t>(x) & ~(std::uint64_t{1} << 63);
  constexpr std::uint64_t kInfinite = std::uint64_t{0x7FF} << 52;
  if (bits == 0) return kZeroBin;
  if (bits > kInfinite) return kNanBin;
  if (bits == kInfinite) return kInfinityBin;
  const int exponent = static_cast<int>(bits >> 52) - 1023;
  if (exponent < kLeastExponent) return 1;
  return exponent > kGreatestExponent ? kExponents : 1 + exponent - kLeastExponent;
}

/** Returns the magnitude of a finite number as f32, at most the largest of f32; else 0. */
template <class C> MZ_HD float finite_magnitude(C x) {
  const C size = x < C(0) ? -x : x;
  if (!(size <= std::numeric_limits<C>::max())) return 0;
  constexpr C kMost = static_cast<C>(std::numeric_limits<float>::max());
  return static_cast<float>(size > kMost ? kMost : size);
}

using ExponentOps = type_list<ChangeHistograms, ExponentHistogram>;

}  // namespace mezzo::op
