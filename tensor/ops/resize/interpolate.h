// Resizing signals, images and volumes. ops.h explains the notation and the precision tags.
// See also: grid_sample.h (sampling at any positions).
#pragma once

#include <array>
#include <initializer_list>

#include "../../core/op.h"
#include "../../core/tensor.h"
#include "../conv/window.h"

namespace mezzo {

/** How elements between the given ones are computed. */
enum class InterpolateMode : std::uint8_t {
  nearest,        // the element at floor(position * scale)
  nearest_exact,  // the element whose centre is nearest
  linear,         // the two neighbours, weighted by distance; 1 dimension
  bilinear,       // linear over 2 dimensions
  trilinear,      // linear over 3 dimensions
  bicubic,        // four neighbours along each of 2 dimensions
};

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

// Resizing of images, signals and volumes: interpolate, and the upsample_* ops, one for each of its
// modes.

namespace op {

struct InterpolateAttrs {
  const char* op = "interpolate";  // the op that errors name
  InterpolateMode mode = InterpolateMode::nearest;
  std::array<std::int64_t, 3> sizes{};  // result's sizes, one per spatial dimension of x
  std::array<double, 3> scales{};       // result size / input size if given; 0: ratio of the sizes
  bool align_corners = false;  // align the centres of the border elements, not their outer edges
  bool antialias = false;      // widen the filter when shrinking
};

/** Functions shared by all ops here, which differ only in name. */
struct InterpolateFunctions {
  using Attrs = InterpolateAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Interpolate : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "interpolate",
                                   .precision = Precision::f32,
                                   .summary = "resizes the last 1, 2 or 3 dimensions",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleBicubic : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_bicubic",
                                   .precision = Precision::f32,
                                   .summary = "interpolate in mode bicubic",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleBilinear : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_bilinear",
                                   .precision = Precision::f32,
                                   .summary = "interpolate in mode bilinear",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleLinear : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_linear",
                                   .precision = Precision::f32,
                                   .summary = "interpolate in mode linear",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleNearest : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_nearest",
                                   .precision = Precision::f32,
                                   .summary = "interpolate in mode nearest",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleNearestExact : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_nearest_exact",
                                   .precision = Precision::f32,
                                   .summary = "interpolate in mode nearest_exact",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleTrilinear : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_trilinear",
                                   .precision = Precision::f32,
                                   .summary = "interpolate in mode trilinear",
                                   .channels_last = ChannelsLast::like_first};
};

/** The adjoint of the linear map. Sums run in f32 (f64) in a fixed order and are rounded once. */
struct InterpolateBackward {
  static constexpr OpTraits traits{
      .name = "interpolate_backward", .precision = Precision::match, .internal = true};
  struct Attrs {
    InterpolateAttrs map;
    Shape sizes;                                     // of the forward input
    MemoryFormat format = MemoryFormat::contiguous;  // of the forward input
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using InterpolateOps =
    type_list<Interpolate, InterpolateBackward, UpsampleBicubic, UpsampleBilinear, UpsampleLinear,
              UpsampleNearest, UpsampleNearestExact, UpsampleTrilinear>;

}  // namespace op

}  // namespace mezzo
