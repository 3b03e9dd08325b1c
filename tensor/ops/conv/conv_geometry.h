// The sizes and strides of a convolution normalised to three spatial dimensions.
#pragma once

#include "conv.h"

namespace mezzo::op {

/** A (batch, channels, depth, height, width) array; with fewer spatial dimensions the leading sizes
 *  are 1. The memory format is stored separately. */
struct Volume {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t batch = 1, channels = 1;
  Extent size{1, 1, 1};

  std::int64_t pixels() const { return size[0] * size[1] * size[2]; }
  /** Returns element 0 of a channel of a row-major array. */
  char* channel(std::int64_t n, std::int64_t c) const {
    const std::int64_t at = (n * channels + c) * pixels();
    return static_cast<char*>(const_cast<void*>(data)) +
           at * static_cast<std::int64_t>(item_size(dtype));
  }
};

/** Returns the tensor of `dims` spatial dimensions, with or without a batch, as a volume. */
Volume volume_of(const Tensor& x, int dims);

/** Returns an extent padded to three dimensions with leading entries of `fill`. */
Extent leading(const Extent& x, int dims, std::int64_t fill);

/** Parameters of a convolution in three dimensions. `in` is the array that the kernel slides over;
 *  `out` has one element per kernel position. */
struct ConvGeometry {
  std::int64_t groups = 1;
  Extent in{}, out{}, kernel{}, stride{}, dilation{}, pad{};

  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

ConvGeometry conv_geometry(const ConvAttrs& attrs, const Extent& in, const Extent& out,
                           const Extent& kernel);

}  // namespace mezzo::op
