// Reads of the CPU's convolutions: images in either memory format, their padded copies, and the
// offsets of positions and taps in these.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "../../core/row_major.h"
#include "conv_geometry.h"

namespace mezzo::cpu_kernels {

using op::conv_geometry;
using op::ConvGeometry;
using op::Extent;
using op::leading;
using op::Volume;
using op::volume_of;

/** Images in one of the memory formats. */
struct Images {
  Volume volume;
  MemoryFormat format = MemoryFormat::contiguous;

  bool channels_last() const { return format == MemoryFormat::channels_last; }
  /** Elements between two channels, and between two pixels. */
  std::int64_t channel_step() const { return channels_last() ? 1 : volume.pixels(); }
  std::int64_t pixel_step() const { return channels_last() ? volume.channels : 1; }
  std::int64_t item() const { return static_cast<std::int64_t>(item_size(volume.dtype)); }
  /** Returns the first pixel of a channel of image n. */
  char* at(std::int64_t n, std::int64_t channel) const {
    const std::int64_t offset = n * volume.channels * volume.pixels() + channel * channel_step();
    return static_cast<char*>(const_cast<void*>(volume.data)) + offset * item();
  }
};

/** Returns whether x is a channels-last batch of images of `dims` dimensions. Without a batch,
 *  there is no such format. */
inline bool is_channels_last(const Tensor& x, int dims) {
  return x.dim() == dims + 2 && x.is_contiguous(MemoryFormat::channels_last);
}
/** Returns x in a dense memory format: x itself, or a row-major copy. */
inline Tensor dense(const Tensor& x, int dims) {
  return is_channels_last(x, dims) ? x : row_major(x);
}
/** Returns the format of a dense tensor; row-major if it has both. */
inline MemoryFormat dense_format(const Tensor& x) {
  return x.is_contiguous() ? MemoryFormat::contiguous : MemoryFormat::channels_last;
}
/** Returns a dense tensor of `dims` spatial dimensions as images. */
inline Images images_of(const Tensor& x, int dims) { return {volume_of(x, dims), dense_format(x)}; }

/** Runs f(y) on a result that is dense, or else on row-major workspace that is then copied. */
template <class F> void with_dense(Tensor& out, int dims, F&& f) {
  if (is_channels_last(out, dims)) return f(out);
  with_row_major(out, f);
}

/** Layout of an image padded with zeros: `before` zeros at the start of each dimension, `size`
 *  pixels in total. Steps are distances in panel elements. */
struct PaddedLayout {
  Extent before{}, size{};
  std::int64_t pixel_step = 1, channel_step = 1;

  /** Sets the steps of a format with this number of elements per pixel. */
  void set_format(MemoryFormat format, std::int64_t channels) {
    const bool last = format == MemoryFormat::channels_last;
    pixel_step = last ? channels : 1;
    channel_step = last ? 1 : pixels();
  }
  std::int64_t pixels() const { return size[0] * size[1] * size[2]; }
  std::int64_t offset(std::int64_t z, std::int64_t y, std::int64_t x) const {
    return ((z * size[1] + y) * size[2] + x) * pixel_step;
  }
  /** Returns whether the pixels of x, in the same order, have this layout. */
  bool is_unpadded(const Volume& x) const { return size == x.size && before == Extent{0, 0, 0}; }
};

/** The channels begin..end-1. */
struct Channels {
  std::int64_t begin, end;
};

/** Writes image n in the padded layout and the format of x, converted to panel elements. The two
 *  factors of a pair are those of two channels of a group; without a second channel it is 0. Pixels
 *  outside the layout are dropped. */
template <class E>
void copy_padded(const Images& x, std::int64_t n, std::int64_t groups, const PaddedLayout& layout,
                 E* to);

/** Writes some channels of step n of the images in the padded layout and the format of x. A step is
 *  an image, or a pair of images, whose elements are the factors of pairs. */
template <class E>
void copy_padded_step(const Images& x, std::int64_t n, Channels channels,
                      const PaddedLayout& layout, E* to);

#if defined(__AVX512BF16__)
/** Writes the terms of each position of the result of a convolution, tap by tap, as lines. The
 *  padding counts as zeros. `layout` is that of the positions, whose pixels hold all groups. */
template <class E>
void copy_windows(const Images& x, std::int64_t n, std::int64_t groups, const ConvGeometry& g,
                  const PaddedLayout& layout, E* to);
#endif

/** Returns the offset of each output position's first tap, in order of output positions. */
std::vector<std::int64_t> position_offsets(const PaddedLayout& layout, const Extent& count,
                                           const Extent& step);

/** Returns offsets in one channel repeated for each of the first channels, channel by channel. */
std::vector<std::int64_t> in_each_channel(const PaddedLayout& layout, std::int64_t channels,
                                          const std::vector<std::int64_t>& offsets);

/** Returns the number of images that one task computes together, so that register blocks are full
 *  and weights are reused even for small images. `units` is the number of parts into which the work
 *  on one image can be divided. The result depends on the shape alone. */
std::int64_t images_per_task(std::int64_t batch, std::int64_t pixels, std::int64_t units);

}  // namespace mezzo::cpu_kernels
