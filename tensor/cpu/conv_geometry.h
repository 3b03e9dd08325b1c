// Where a convolution reads and writes: its operands' sizes as five numbers each, and padded copies of its input.
// Sees: tensor.h.
// Read next: conv.cpp, conv_weight.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "../ops/conv.h"
#include "../tensor.h"

namespace mezzo::cpu_kernels {

using op::Extent;

/** A (batch, channels, depth, height, width) array, row-major; fewer spatial dimensions have leading sizes of 1. */
struct Volume {
  const void* data = nullptr;
  DType dtype = DType::f32;
  std::int64_t batch = 1, channels = 1;
  Extent size{1, 1, 1};

  std::int64_t pixels() const { return size[0] * size[1] * size[2]; }
  /** Element 0 of a channel. */
  char* channel(std::int64_t n, std::int64_t c) const {
    const std::int64_t at = (n * channels + c) * pixels();
    return static_cast<char*>(const_cast<void*>(data)) + at * static_cast<std::int64_t>(item_size(dtype));
  }
};

/** The row-major tensor of `dims` spatial dimensions, with or without a batch, as a volume. */
Volume volume_of(const Tensor& x, int dims);

/** Stride, dilation and so on with leading entries of `fill` up to three dimensions. */
Extent leading(const Extent& x, int dims, std::int64_t fill);

/** A convolution's numbers in three dimensions. `in` is what is slid over, `out` what one position each gives. */
struct ConvGeometry {
  std::int64_t groups = 1;
  Extent in{}, out{}, kernel{}, stride{}, dilation{}, pad{};

  std::int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
};

ConvGeometry conv_geometry(const op::ConvAttrs& attrs, const Extent& in, const Extent& out,
                           const Extent& kernel);

/** Layout of an image with zeros around it: `before` of them at the start of each dimension, `size` in all. */
struct PaddedLayout {
  Extent before{}, size{};

  std::int64_t channel_size() const { return size[0] * size[1] * size[2]; }
  std::int64_t offset(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return (z * size[1] + y) * size[2] + x;
  }
};

struct Channels {
  std::int64_t begin, end;
};

/** Writes some channels of image n in the padded layout, widened to T; what lies beyond the layout is left out. */
template <class T>
void copy_padded(const Volume& x, std::int64_t n, Channels channels, const PaddedLayout& layout, T* to);

/** Offset of each output position's first tap, in order of output positions. */
std::vector<std::int64_t> position_offsets(const PaddedLayout& layout, const Extent& count,
                                           const Extent& step);

/** Offset of each tap of each channel, in the order of the weight's elements. */
std::vector<std::int64_t> tap_offsets(const PaddedLayout& layout, std::int64_t channels, const Extent& kernel,
                                      const Extent& dilation);

/** Images whose positions are worked on together, so that register blocks are full and weights are used often even where images are small.
 *  `units` says into how many parts the work on an image could be cut besides. By shape alone. */
std::int64_t images_per_task(std::int64_t batch, std::int64_t pixels, std::int64_t units);

}  // namespace mezzo::cpu_kernels
