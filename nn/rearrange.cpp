#include "rearrange.h"

#include "../tensor/ops/require.h"
#include "../tensor/ops/shape/rearrange.h"
#include "../tensor/text/text.h"
#include "arguments.h"

namespace mezzo::nn {

PixelShuffle::PixelShuffle(std::int64_t upscale_factor) : factor_(upscale_factor) {
  detail::require_at_least(1, "PixelShuffle", "upscale_factor", upscale_factor);
  set_summary(str(upscale_factor));
}

Tensor PixelShuffle::forward(const Tensor& x) const { return pixel_shuffle(x, factor_); }

PixelUnshuffle::PixelUnshuffle(std::int64_t downscale_factor) : factor_(downscale_factor) {
  detail::require_at_least(1, "PixelUnshuffle", "downscale_factor", downscale_factor);
  set_summary(str(downscale_factor));
}

Tensor PixelUnshuffle::forward(const Tensor& x) const { return pixel_unshuffle(x, factor_); }

ChannelShuffle::ChannelShuffle(std::int64_t groups) : groups_(groups) {
  detail::require_at_least(1, "ChannelShuffle", "groups", groups);
  set_summary(str(groups));
}

Tensor ChannelShuffle::forward(const Tensor& x) const {
  require_defined("ChannelShuffle", x);
  if (x.dim() < 3 || x.size(1) % groups_ != 0)
    fail<ShapeError>("ChannelShuffle", {.what = "groups do not divide the channels",
                                        .got = str(x),
                                        .expected = str("[N, a multiple of ", groups_, ", ...]")});
  return x.unflatten(1, {groups_, x.size(1) / groups_}).transpose(1, 2).flatten(1, 2);
}

namespace {

std::string summary_of(const WindowSizes& size, const ScaleFactors& factor) {
  if (size.given()) return "to given sizes";
  return factor.given() ? "by given factors" : "";
}

UpsampleOptions options_of(const UpsamplingOptions& options, bool align_corners) {
  return {
      .size = options.size, .scale_factor = options.scale_factor, .align_corners = align_corners};
}

}  // namespace

Upsample::Upsample(const InterpolateOptions& options) : options_(options) {
  set_summary(summary_of(options.size, options.scale_factor));
}

Tensor Upsample::forward(const Tensor& x) const { return interpolate(x, options_); }

UpsamplingNearest2d::UpsamplingNearest2d(const UpsamplingOptions& options)
    : options_(options_of(options, false)) {
  set_summary(summary_of(options.size, options.scale_factor));
}

Tensor UpsamplingNearest2d::forward(const Tensor& x) const { return upsample_nearest(x, options_); }

UpsamplingBilinear2d::UpsamplingBilinear2d(const UpsamplingOptions& options)
    : options_(options_of(options, true)) {
  set_summary(summary_of(options.size, options.scale_factor));
}

Tensor UpsamplingBilinear2d::forward(const Tensor& x) const {
  return upsample_bilinear(x, options_);
}

Unfold::Unfold(const WindowSizes& kernel, const UnfoldOptions& options)
    : kernel_(kernel), options_(options) {
  set_summary(str("kernel ", detail::sizes_text(kernel, 2)));
}

Tensor Unfold::forward(const Tensor& x) const { return unfold(x, kernel_, options_); }

Fold::Fold(const WindowSizes& output, const WindowSizes& kernel, const UnfoldOptions& options)
    : output_(output), kernel_(kernel), options_(options) {
  set_summary(str(detail::sizes_text(output, 2), ", kernel ", detail::sizes_text(kernel, 2)));
}

Tensor Fold::forward(const Tensor& x) const { return fold(x, output_, kernel_, options_); }

Tensor Identity::forward(const Tensor& x) const { return x; }

Flatten::Flatten(std::int64_t start, std::int64_t end) : start_(start), end_(end) {
  if (start != 1 || end != -1) set_summary(str(start, ", ", end));
}

Tensor Flatten::forward(const Tensor& x) const { return x.flatten(start_, end_); }

Unflatten::Unflatten(std::int64_t dim, const Shape& sizes) : dim_(dim), sizes_(sizes) {
  set_summary(str(dim, ", ", sizes));
}

Tensor Unflatten::forward(const Tensor& x) const { return x.unflatten(dim_, sizes_); }

}  // namespace mezzo::nn
