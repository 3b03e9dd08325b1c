// Reads of the CPU's convolutions: padded copies of the input, and the offsets of positions and
// taps in them.
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

/** Layout of an image padded with zeros: `before` zeros at the start of each dimension, `size`
 *  elements in total. */
struct PaddedLayout {
  Extent before{}, size{};

  std::int64_t channel_size() const { return size[0] * size[1] * size[2]; }
  std::int64_t offset(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return (z * size[1] + y) * size[2] + x;
  }
};

/** The channels begin..end-1. */
struct Channels {
  std::int64_t begin, end;
};

/** Writes a channel of x in the padded layout, converted to panel elements; elements outside the
 *  layout are dropped. Pairs take their second factors from the channel `second`; nullptr: 0. */
template <class E>
void copy_padded(const Volume& x, const char* channel, const char* second,
                 const PaddedLayout& layout, E* to);

/** Returns the offset of each output position's first tap, in order of output positions. */
std::vector<std::int64_t> position_offsets(const PaddedLayout& layout, const Extent& count,
                                           const Extent& step);

/** Returns the offset of each tap of each channel, in the order of the weight's elements. */
std::vector<std::int64_t> tap_offsets(const PaddedLayout& layout, std::int64_t channels,
                                      const Extent& kernel, const Extent& dilation);

/** Returns the number of images that one task computes together, so that register blocks are full
 *  and weights are reused even for small images. `units` is the number of parts into which the work
 *  on one image can be divided. The result depends on the shape alone. */
std::int64_t images_per_task(std::int64_t batch, std::int64_t pixels, std::int64_t units);

}  // namespace mezzo::cpu_kernels
