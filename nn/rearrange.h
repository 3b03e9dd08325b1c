// Layers that rearrange: flatten, pixels and channels, resized images, blocks of images.
// See also: tensor/ops/shape/rearrange.h, tensor/ops/resize/interpolate.h and
// tensor/ops/conv/unfold.h (shapes, gradients, errors).
#pragma once

#include "../tensor/ops/conv/unfold.h"
#include "../tensor/ops/resize/interpolate.h"
#include "model.h"

namespace mezzo::nn {

/** Calls pixel_shuffle(): [..., c r^2, h, w] gives [..., c, h r, w r]. Errors: ValueError for a
 *  factor below 1. */
class MZ_API PixelShuffle : public Model<PixelShuffle> {
 public:
  /** Constructs the layer; upscale_factor is r. */
  explicit PixelShuffle(std::int64_t upscale_factor);

  /** Returns pixel_shuffle(x, r). */
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t factor_;
};

/** Calls pixel_unshuffle(): [..., c, h r, w r] gives [..., c r^2, h, w]. Errors: ValueError for a
 *  factor below 1. */
class MZ_API PixelUnshuffle : public Model<PixelUnshuffle> {
 public:
  /** Constructs the layer; downscale_factor is r. */
  explicit PixelUnshuffle(std::int64_t downscale_factor);

  /** Returns pixel_unshuffle(x, r). */
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t factor_;
};

/** Reorders channels: the first channel of each group, then the second of each, and so on.
 *  Shape: [N,C,...]; the result has the same shape.
 *  Precision: follows x, exact.
 *  Errors: ValueError for groups below 1; calls throw ShapeError unless groups divide C.
 *  Source: Zhang et al., ShuffleNet (2018). */
class MZ_API ChannelShuffle : public Model<ChannelShuffle> {
 public:
  /** Constructs the layer; `groups` must divide the channels of the inputs. */
  explicit ChannelShuffle(std::int64_t groups);

  /** Returns x with its channels reordered. */
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t groups_;
};

/** Resizes the spatial dimensions: nn::Upsample{{.scale_factor = 2}} calls
 *  interpolate(x, {.scale_factor = 2}). */
class MZ_API Upsample : public Model<Upsample> {
 public:
  /** Constructs the layer; the options need a size or a scale_factor. */
  explicit Upsample(const InterpolateOptions& options);

  /** Returns interpolate(x) with the layer's options. */
  Tensor forward(const Tensor& x) const;

 private:
  InterpolateOptions options_;
};

/** Options of nn::UpsamplingNearest2d and nn::UpsamplingBilinear2d. */
struct UpsamplingOptions {
  WindowSizes size = {};           // size of the result; set either this or scale_factor
  ScaleFactors scale_factor = {};  // size of the result divided by the size of the input
};

/** Resizes images by nearest-neighbour interpolation. */
class MZ_API UpsamplingNearest2d : public Model<UpsamplingNearest2d> {
 public:
  /** Constructs the layer; the options need a size or a scale_factor. */
  explicit UpsamplingNearest2d(const UpsamplingOptions& options);

  /** Returns upsample_nearest(x) with the layer's options. */
  Tensor forward(const Tensor& x) const;

 private:
  UpsampleOptions options_;
};
/** Resizes images by bilinear interpolation with aligned corners. */
class MZ_API UpsamplingBilinear2d : public Model<UpsamplingBilinear2d> {
 public:
  /** Constructs the layer; the options need a size or a scale_factor. */
  explicit UpsamplingBilinear2d(const UpsamplingOptions& options);

  /** Returns upsample_bilinear(x) with the layer's options and align_corners. */
  Tensor forward(const Tensor& x) const;

 private:
  UpsampleOptions options_;
};

/** Extracts the blocks of an image as columns: nn::Unfold{3, {.padding = 1}} calls
 *  unfold(x, 3, {.padding = 1}). */
class MZ_API Unfold : public Model<Unfold> {
 public:
  /** Constructs the layer for blocks of `kernel` sizes. */
  explicit Unfold(const WindowSizes& kernel, const UnfoldOptions& options = {});

  /** Returns unfold(x, kernel) with the layer's options. */
  Tensor forward(const Tensor& x) const;

 private:
  WindowSizes kernel_;
  UnfoldOptions options_;
};

/** Sums columns at the positions of their blocks in an image of `output` sizes: calls fold(). */
class MZ_API Fold : public Model<Fold> {
 public:
  /** Constructs the layer for images of `output` sizes and blocks of `kernel` sizes. */
  Fold(const WindowSizes& output, const WindowSizes& kernel, const UnfoldOptions& options = {});

  /** Returns fold(x, output, kernel) with the layer's options. */
  Tensor forward(const Tensor& x) const;

 private:
  WindowSizes output_, kernel_;
  UnfoldOptions options_;
};

/** Returns its argument unchanged, where a model expects a layer but needs none. */
class MZ_API Identity : public Model<Identity> {
 public:
  /** Returns x itself. */
  Tensor forward(const Tensor& x) const;
};

/** Flattens dimensions start..end (inclusive; negative values count from the end) into one, by
 *  default all but the batch.
 *  Precision: follows the input. */
class MZ_API Flatten : public Model<Flatten> {
 public:
  /** Constructs the layer; `start` and `end` are inclusive. */
  explicit Flatten(std::int64_t start = 1, std::int64_t end = -1);

  /** Returns x.flatten(start, end). */
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t start_, end_;
};

/** Splits dimension dim into the given sizes, one of which may be -1. */
class MZ_API Unflatten : public Model<Unflatten> {
 public:
  /** Constructs the layer; `sizes` are checked at each call. */
  Unflatten(std::int64_t dim, const Shape& sizes);

  /** Returns x.unflatten(dim, sizes). */
  Tensor forward(const Tensor& x) const;

 private:
  std::int64_t dim_;
  Shape sizes_;
};

}  // namespace mezzo::nn
