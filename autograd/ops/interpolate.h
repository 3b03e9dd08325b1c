// Resizing of signals, images and volumes.
// Sees: tensor, window.h.
// Read next: grid_sample.h, ../../tensor/ops/interpolate.h.
#pragma once

#include <array>
#include <initializer_list>

#include "../../tensor/ops/interpolate.h"
#include "../../tensor/tensor.h"
#include "window.h"

namespace mezzo {

/** Result size by input size, one for every dimension or one for each: 2, or {2, 0.5}. Empty means "not given". */
class MZ_API ScaleFactors {
 public:
  ScaleFactors() = default;
  ScaleFactors(double value) : values_{value}, count_(1) {}  // NOLINT: a number is meant to convert
  ScaleFactors(std::initializer_list<double> values);

  bool given() const { return count_ > 0; }
  /** The factors of `dims` dimensions. Errors: ValueError naming `op` when there are neither 1 nor `dims`, or one is not a positive number. */
  std::array<double, 3> expanded(int dims, const char* op) const;

 private:
  std::array<double, 3> values_{};
  int count_ = 0;
};

struct InterpolateOptions {
  WindowSizes size = {};           // of the result; this or scale_factor
  ScaleFactors scale_factor = {};  // result sizes are floor(in * factor)
  InterpolateMode mode = InterpolateMode::nearest;
  bool align_corners = false;  // the outermost elements' middles stay in place, not their outer edges
  bool recompute_scale_factor = false;  // the step is that of the sizes, not of the factor they came from
  bool antialias = false;               // bilinear, bicubic: filter what shrinks
};

struct UpsampleOptions {
  WindowSizes size = {};           // of the result; this or scale_factor
  ScaleFactors scale_factor = {};  // result sizes are floor(in * factor)
  bool align_corners = false;      // not in the nearest modes
  bool antialias = false;          // bilinear, bicubic
};

/** x with its dimensions behind batch and channels resized.
 *  Shape: x [n,c,...] with 1 to 3 more dimensions (linear 1, bilinear and bicubic 2, trilinear 3).
 *  Precision: full; places and weights are computed in f32 (f64 for f64), sums too, one rounding.
 *  Gradient: the adjoint of the map, summed in the same precision in a fixed order, rounded once; twice differentiable.
 *  Errors: ValueError unless exactly one of size and scale_factor is given, for align_corners in a nearest mode, antialias in a mode without
 *  it, recompute_scale_factor without a factor; ShapeError for a wrong number of dimensions or an empty size; DtypeError for integers. */
MZ_API Tensor interpolate(const Tensor& x, const InterpolateOptions& options);

/** interpolate in the mode of the name. */
MZ_API Tensor upsample_bicubic(const Tensor& x, const UpsampleOptions& options);
MZ_API Tensor upsample_bilinear(const Tensor& x, const UpsampleOptions& options);
MZ_API Tensor upsample_linear(const Tensor& x, const UpsampleOptions& options);
MZ_API Tensor upsample_nearest(const Tensor& x, const UpsampleOptions& options);
MZ_API Tensor upsample_nearest_exact(const Tensor& x, const UpsampleOptions& options);
MZ_API Tensor upsample_trilinear(const Tensor& x, const UpsampleOptions& options);

}  // namespace mezzo
