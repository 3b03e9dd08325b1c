// Layers that move pixels and channels about, resize images, and take them apart into blocks.
// Sees: model.h.
// Read next: ../autograd/ops/rearrange.h, ../autograd/ops/interpolate.h, ../autograd/ops/unfold.h (shapes, gradients, errors).
#pragma once

#include "../autograd/ops/interpolate.h"
#include "../autograd/ops/unfold.h"
#include "model.h"

namespace mezzo::nn {

/** [..., c r^2, h, w] as [..., c, h r, w r]: calls pixel_shuffle().   Errors: ValueError for a factor below 1. */
class MZ_API PixelShuffle : public Model<PixelShuffle> {
 public:
  explicit PixelShuffle(std::int64_t upscale_factor);

  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t factor_;
};

/** [..., c, h r, w r] as [..., c r^2, h, w]: calls pixel_unshuffle().   Errors: ValueError for a factor below 1. */
class MZ_API PixelUnshuffle : public Model<PixelUnshuffle> {
 public:
  explicit PixelUnshuffle(std::int64_t downscale_factor);

  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t factor_;
};

/** The first channel of each group, then the second of each, and so on. Shape: [N,C,...], kept.   Precision: follows x, exact.
 *  Errors: ValueError for groups below 1; when called: ShapeError unless groups divide C.   Source: Zhang et al., ShuffleNet (2018). */
class MZ_API ChannelShuffle : public Model<ChannelShuffle> {
 public:
  explicit ChannelShuffle(std::int64_t groups);

  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t groups_;
};

/** Resizes what stands behind batch and channels: nn::Upsample{{.scale_factor = 2}} calls interpolate(x, {.scale_factor = 2}). */
class MZ_API Upsample : public Model<Upsample> {
 public:
  explicit Upsample(const InterpolateOptions& options);

  Tensor forward(const Tensor& x) const;

 private:
  InterpolateOptions options_;
};

struct UpsamplingOptions {
  WindowSizes size = {};  // of the result; this or scale_factor
  ScaleFactors scale_factor = {};
};

/** Upsample of images by the nearest pixel; bilinear with the corners in place. */
class MZ_API UpsamplingNearest2d : public Model<UpsamplingNearest2d> {
 public:
  explicit UpsamplingNearest2d(const UpsamplingOptions& options);

  Tensor forward(const Tensor& x) const;

 private:
  UpsampleOptions options_;
};
class MZ_API UpsamplingBilinear2d : public Model<UpsamplingBilinear2d> {
 public:
  explicit UpsamplingBilinear2d(const UpsamplingOptions& options);

  Tensor forward(const Tensor& x) const;

 private:
  UpsampleOptions options_;
};

/** Every block of an image as a column: nn::Unfold{3, {.padding = 1}} calls unfold(x, 3, {.padding = 1}). */
class MZ_API Unfold : public Model<Unfold> {
 public:
  explicit Unfold(const WindowSizes& kernel, const UnfoldOptions& options = {});

  Tensor forward(const Tensor& x) const;

 private:
  WindowSizes kernel_;
  UnfoldOptions options_;
};

/** The sum of columns, each where its block lies in an image of `output` sizes: calls fold(). */
class MZ_API Fold : public Model<Fold> {
 public:
  Fold(const WindowSizes& output, const WindowSizes& kernel, const UnfoldOptions& options = {});

  Tensor forward(const Tensor& x) const;

 private:
  WindowSizes output_, kernel_;
  UnfoldOptions options_;
};

}  // namespace mezzo::nn
