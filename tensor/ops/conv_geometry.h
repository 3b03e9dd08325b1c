// Where a convolution reads and writes: its operands' sizes as five numbers each.
// Sees: conv.h.
// Read next: conv_geometry.cpp, ../cpu/conv.cpp (a kernel).
#pragma once

#include "conv.h"

namespace mezzo::op {

/** A (batch, channels, depth, height, width) array; fewer spatial dimensions have leading sizes of 1. How it lies is known beside it. */
struct Volume {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t batch = 1, channels = 1;
  Extent size{1, 1, 1};

  std::int64_t pixels() const { return size[0] * size[1] * size[2]; }
  /** Element 0 of a channel of a row-major array. */
  char* channel(std::int64_t n, std::int64_t c) const {
    const std::int64_t at = (n * channels + c) * pixels();
    return static_cast<char*>(const_cast<void*>(data)) + at * static_cast<std::int64_t>(item_size(dtype));
  }
};

/** The tensor of `dims` spatial dimensions, with or without a batch, as a volume. */
Volume volume_of(const Tensor& x, int dims);

/** Stride, dilation and so on with leading entries of `fill` up to three dimensions. */
Extent leading(const Extent& x, int dims, std::int64_t fill);

/** A convolution's numbers in three dimensions. `in` is what is slid over, `out` what one position each gives. */
struct ConvGeometry {
  std::int64_t groups = 1;
  Extent in{}, out{}, kernel{}, stride{}, dilation{}, pad{};

  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

ConvGeometry conv_geometry(const ConvAttrs& attrs, const Extent& in, const Extent& out, const Extent& kernel);

}  // namespace mezzo::op
