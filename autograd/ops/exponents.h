// exponent_histogram, change_histograms: where magnitudes lie. ops.h explains the notation and the
// precision tags.
#pragma once

#include "../../tensor/core/tensor.h"

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
