// Resizing of images, signals and volumes: interpolate and the upsample_* ops, which are its modes by name.
// Sees: op.h.
// Read next: interpolate.cpp (shape rules), ../cpu/interpolate.cpp (kernels), ../../autograd/rules/interpolate.cpp (rules).
#pragma once

#include <array>

#include "../op.h"

namespace mezzo {

/** How elements between the given ones are made. */
enum class InterpolateMode : std::uint8_t {
  nearest,        // the element at floor(place * scale)
  nearest_exact,  // the element whose middle is nearest
  linear,         // the two neighbours, by distance; 1 dimension
  bilinear,       // the same over 2
  trilinear,      // and over 3
  bicubic,        // four neighbours along each of 2 dimensions
};

namespace op {

struct InterpolateAttrs {
  const char* op = "interpolate";  // whose name an error carries
  InterpolateMode mode = InterpolateMode::nearest;
  std::array<std::int64_t, 3>
      sizes{};                     // of the result; the first as many as x has dimensions behind the channels
  std::array<double, 3> scales{};  // result by input, where given; 0: the ratio of the sizes
  bool align_corners = false;      // the outermost elements' middles stay in place, not their outer edges
  bool antialias = false;          // a filter as wide as what it shrinks
};

/** What all of them are: only their names differ. */
struct InterpolateFunctions {
  using Attrs = InterpolateAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Interpolate : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "interpolate",
                                   .precision = Precision::full,
                                   .summary = "resizes the last 1, 2 or 3 dimensions",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleBicubic : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_bicubic",
                                   .precision = Precision::full,
                                   .summary = "interpolate in mode bicubic",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleBilinear : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_bilinear",
                                   .precision = Precision::full,
                                   .summary = "interpolate in mode bilinear",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleLinear : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_linear",
                                   .precision = Precision::full,
                                   .summary = "interpolate in mode linear",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleNearest : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_nearest",
                                   .precision = Precision::full,
                                   .summary = "interpolate in mode nearest",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleNearestExact : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_nearest_exact",
                                   .precision = Precision::full,
                                   .summary = "interpolate in mode nearest_exact",
                                   .channels_last = ChannelsLast::like_first};
};
struct UpsampleTrilinear : InterpolateFunctions {
  static constexpr OpTraits traits{.name = "upsample_trilinear",
                                   .precision = Precision::full,
                                   .summary = "interpolate in mode trilinear",
                                   .channels_last = ChannelsLast::like_first};
};

/** The adjoint of the linear map, summed in f32 (f64) in a fixed order and rounded once. */
struct InterpolateBackward {
  static constexpr OpTraits traits{
      .name = "interpolate_backward", .precision = Precision::match, .internal = true};
  struct Attrs {
    InterpolateAttrs map;
    Shape sizes;                                     // of what was resized
    MemoryFormat format = MemoryFormat::contiguous;  // of it
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using InterpolateOps = type_list<Interpolate, InterpolateBackward, UpsampleBicubic, UpsampleBilinear,
                                 UpsampleLinear, UpsampleNearest, UpsampleNearestExact, UpsampleTrilinear>;

}  // namespace op

}  // namespace mezzo
