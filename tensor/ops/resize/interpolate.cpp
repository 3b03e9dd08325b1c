// Shape rules, gradients and public functions of the ops in interpolate.h.
#include "interpolate.h"

#include <algorithm>
#include <cmath>

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../require.h"

namespace mezzo::op {

namespace {

/** Returns the number of spatial dimensions of a mode; 0: any of 1, 2, 3. */
int spatial_dims(InterpolateMode mode) {
  switch (mode) {
    case InterpolateMode::nearest:
    case InterpolateMode::nearest_exact: return 0;
    case InterpolateMode::linear: return 1;
    case InterpolateMode::trilinear: return 3;
    case InterpolateMode::bilinear:
    case InterpolateMode::bicubic: break;
  }
  return 2;
}

void require_options(const InterpolateAttrs& attrs) {
  const bool nearest = spatial_dims(attrs.mode) == 0;
  if (attrs.align_corners && nearest)
    fail<ValueError>(attrs.op, {.what = "align_corners has no meaning in a nearest mode",
                                .expected = "a linear or cubic mode"});
  const bool smooth =
      attrs.mode == InterpolateMode::bilinear || attrs.mode == InterpolateMode::bicubic;
  if (attrs.antialias && !smooth)
    fail<ValueError>(attrs.op, {.what = "antialias is not defined in this mode",
                                .expected = "bilinear or bicubic"});
}

}  // namespace

OutSpecs InterpolateFunctions::infer(Inputs in, const Attrs& attrs) {
  const Tensor& x = in[0];
  require_one_floating_dtype(attrs.op, in);
  require_options(attrs);
  const int dims = x.dim() - 2, wanted = spatial_dims(attrs.mode);
  if (wanted == 0 ? dims < 1 || dims > 3 : dims != wanted)
    fail<ShapeError>(attrs.op,
                     {.what = "wrong number of dimensions",
                      .got = str(x),
                      .expected = wanted == 0 ? std::string("3 to 5: batch, channels, sizes")
                                              : str(wanted + 2, ": batch, channels, sizes")});
  Shape shape = x.shape();
  for (int d = 0; d < dims; ++d) {
    shape[d + 2] = attrs.sizes[static_cast<std::size_t>(d)];
    if (x.shape()[d + 2] < 1 || shape[d + 2] < 1)
      fail<ShapeError>(attrs.op, {.what = "input and output sizes must be positive",
                                  .got = str(x, " to ", shape),
                                  .expected = "sizes of 1 or more"});
  }
  return {{shape, x.dtype()}};
}

OutSpecs InterpolateBackward::infer(Inputs in, const Attrs& attrs) {
  return {{.shape = attrs.sizes, .dtype = in[0].dtype(), .format = attrs.format}};
}

std::span<OpInfo* const> interpolate_ops() { return infos_of(InterpolateOps{}); }

// Gradients of resizing: the adjoint map, and the gradient of the adjoint, which is the map itself.

Grads InterpolateFunctions::backward(const Saved& saved, const Grads& gy) {
  // All of these ops have attributes of one type.
  return {apply_with<InterpolateBackward>(
      {saved.attrs<Interpolate>(), saved.shape(0), saved.input_meta[0].format}, gy[0])};
}

Grads InterpolateBackward::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Interpolate>(saved.attrs<InterpolateBackward>().map, gy[0])};
}

}  // namespace mezzo::op

namespace mezzo {

ScaleFactors::ScaleFactors(std::initializer_list<double> values)
    : count_(static_cast<int>(values.size())) {
  if (values.size() == 0 || values.size() > values_.size())
    fail<ValueError>("scale_factor", {.what = "wrong number of factors",
                                      .got = str(values.size()),
                                      .expected = "one for all dimensions, or one for each"});
  std::size_t i = 0;
  for (const double value : values) values_[i++] = value;
}

std::array<double, 3> ScaleFactors::expanded(int dims, const char* op) const {
  if (count_ != 1 && count_ != dims)
    fail<ValueError>(op, {.what = "wrong number of values for scale_factor",
                          .got = str(count_),
                          .expected = dims == 1 ? "1" : str("1 or ", dims)});
  std::array<double, 3> out{};
  for (std::size_t i = 0; i < static_cast<std::size_t>(dims); ++i) {
    out[i] = values_[count_ == 1 ? 0 : i];
    if (!(out[i] > 0) || std::isinf(out[i]))
      fail<ValueError>(op, {.what = "scale_factor is out of range",
                            .got = str(out[i]),
                            .expected = "a positive number"});
  }
  return out;
}

namespace {

template <class Op> Tensor resized(const Tensor& x, const InterpolateOptions& options) {
  const char* op = Op::traits.name.data();
  require_defined(op, x);
  if (options.size.given() == options.scale_factor.given())
    fail<ValueError>(op, {.what = options.size.given() ? "both size and scale_factor are given"
                                                       : "neither size nor scale_factor is given",
                          .expected = "one of them"});
  if (options.recompute_scale_factor && options.size.given())
    fail<ValueError>(op, {.what = "recompute_scale_factor cannot be combined with size",
                          .expected = "scale_factor"});
  op::InterpolateAttrs attrs{.op = op,
                             .mode = options.mode,
                             .align_corners = options.align_corners,
                             .antialias = options.antialias};
  // The op throws for a wrong number of dimensions.
  const int dims = std::clamp(x.dim() - 2, 1, 3);
  if (options.size.given()) {
    attrs.sizes = options.size.expanded(dims, op, "size");
    return apply_with<Op>(attrs, x);
  }
  const std::array<double, 3> factors = options.scale_factor.expanded(dims, op);
  for (int d = 0; d < dims && d + 2 < x.dim(); ++d) {
    const auto i = static_cast<std::size_t>(d);
    const double size = std::floor(static_cast<double>(x.shape()[d + 2]) * factors[i]);
    if (size > 0x1p59)
      fail<SizeError>(op, {.what = "a size overflows", .got = str(size, " from ", x)});
    attrs.sizes[i] = static_cast<std::int64_t>(size);
  }
  if (!options.recompute_scale_factor) attrs.scales = factors;
  return apply_with<Op>(attrs, x);
}

template <class Op>
Tensor upsampled(const Tensor& x, InterpolateMode mode, const UpsampleOptions& options) {
  return resized<Op>(x, {.size = options.size,
                         .scale_factor = options.scale_factor,
                         .mode = mode,
                         .align_corners = options.align_corners,
                         .antialias = options.antialias});
}

}  // namespace

Tensor interpolate(const Tensor& x, const InterpolateOptions& options) {
  return resized<op::Interpolate>(x, options);
}

Tensor upsample_bicubic(const Tensor& x, const UpsampleOptions& options) {
  return upsampled<op::UpsampleBicubic>(x, InterpolateMode::bicubic, options);
}
Tensor upsample_bilinear(const Tensor& x, const UpsampleOptions& options) {
  return upsampled<op::UpsampleBilinear>(x, InterpolateMode::bilinear, options);
}
Tensor upsample_linear(const Tensor& x, const UpsampleOptions& options) {
  return upsampled<op::UpsampleLinear>(x, InterpolateMode::linear, options);
}
Tensor upsample_nearest(const Tensor& x, const UpsampleOptions& options) {
  return upsampled<op::UpsampleNearest>(x, InterpolateMode::nearest, options);
}
Tensor upsample_nearest_exact(const Tensor& x, const UpsampleOptions& options) {
  return upsampled<op::UpsampleNearestExact>(x, InterpolateMode::nearest_exact, options);
}
Tensor upsample_trilinear(const Tensor& x, const UpsampleOptions& options) {
  return upsampled<op::UpsampleTrilinear>(x, InterpolateMode::trilinear, options);
}

}  // namespace mezzo
