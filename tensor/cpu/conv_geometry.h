// Where the CPU's convolutions read: padded copies of the input, and the offsets of positions and taps in them.
// Sees: ../ops/conv_geometry.h.
// Read next: conv.cpp, conv_weight.cpp.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "../ops/conv_geometry.h"

namespace mezzo::cpu_kernels {

using op::conv_geometry;
using op::ConvGeometry;
using op::Extent;
using op::leading;
using op::Volume;
using op::volume_of;

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
