// Resizing of images, signals and volumes: interpolate, and the upsample_* ops, one for each of its
// modes.
#pragma once

#include <array>

#include "../core/op.h"

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
