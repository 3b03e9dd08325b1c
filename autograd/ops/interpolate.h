// Resizing signals, images and volumes. ops.h explains the notation and the precision tags.
// See also: grid_sample.h (sampling at any positions).
#pragma once

#include <array>
#include <initializer_list>

#include "../../tensor/core/tensor.h"
#include "../../tensor/ops/interpolate.h"
#include "window.h"

namespace mezzo {

/** Ratio of result size to input size: one for all dimensions or one for each, as in 2 or {2, 0.5}.
 *  Empty means "not given". */
class MZ_API ScaleFactors {
 public:
  ScaleFactors() = default;
  /** Takes one factor for all dimensions. */
  ScaleFactors(double value) : values_{value}, count_(1) {}  // NOLINT: implicit on purpose
  /** Takes one factor for all dimensions, or one for each. Errors: ValueError unless there are 1
   *  to 3. */
  ScaleFactors(std::initializer_list<double> values);

  /** Returns whether there is a factor. */
  bool given() const { return count_ > 0; }
  /** Returns the factors of `dims` dimensions. Errors: ValueError in the name of `op` when there
   *  are neither 1 nor `dims` factors, or one is not a positive number. */
  std::array<double, 3> expanded(int dims, const char* op) const;

 private:
  std::array<double, 3> values_{};
  int count_ = 0;
};

/** Options of interpolate. */
struct InterpolateOptions {
  WindowSizes size = {};           // of the result; give either this or scale_factor
  ScaleFactors scale_factor = {};  // result sizes are floor(in * factor)
  InterpolateMode mode = InterpolateMode::nearest;  // how values are interpolated
  /** True: the centres of the outermost elements stay in place. False: their outer edges do. */
  bool align_corners = false;
  /** True: the step follows from the sizes. False: from scale_factor, where that is given. */
  bool recompute_scale_factor = false;
  bool antialias = false;  // in bilinear and bicubic mode: low-pass filter where x shrinks
};

/** Options of the upsample functions, whose names give the mode. */
struct UpsampleOptions {
  WindowSizes size = {};           // of the result; give either this or scale_factor
  ScaleFactors scale_factor = {};  // result sizes are floor(in * factor)
  bool align_corners = false;      // as in InterpolateOptions; not in the nearest modes
  bool antialias = false;          // as in InterpolateOptions; bilinear and bicubic only
};

/** Resizes the dimensions of x after batch and channels.
 *  Shape: x [n,c,...] with 1 to 3 more dimensions (linear 1, bilinear and bicubic 2, trilinear 3).
 *  Precision: f32; positions, weights and sums are computed in f32 (f64 for f64), one rounding.
 *  Gradient: the adjoint of the map, summed in the same precision in a fixed order, rounded once;
 *  twice differentiable.
 *  Errors: ValueError unless exactly one of size and scale_factor is given, for align_corners in a
 *  nearest mode, antialias in a mode without it, or recompute_scale_factor without a factor;
 *  ShapeError for a wrong number of dimensions or an empty size; DtypeError for integers. */
MZ_API Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

/** Resizes x [n,c,h,w] as interpolate does in mode bicubic. */
MZ_API Tensor upsample_bicubic(const Tensor& x, const UpsampleOptions& options);
/** Resizes x [n,c,h,w] as interpolate does in mode bilinear. */
MZ_API Tensor upsample_bilinear(const Tensor& x, const UpsampleOptions& options);
/** Resizes x [n,c,l] as interpolate does in mode linear. */
MZ_API Tensor upsample_linear(const Tensor& x, const UpsampleOptions& options);
/** Resizes x, with 1 to 3 dimensions after the channels, as interpolate does in mode nearest. */
MZ_API Tensor upsample_nearest(const Tensor& x, const UpsampleOptions& options);
/** Resizes x, with 1 to 3 dimensions after the channels, as interpolate does in mode
 *  nearest_exact. */
MZ_API Tensor upsample_nearest_exact(const Tensor& x, const UpsampleOptions& options);
/** Resizes x [n,c,d,h,w] as interpolate does in mode trilinear. */
MZ_API Tensor upsample_trilinear(const Tensor& x, const UpsampleOptions& options);

}  // namespace mezzo
