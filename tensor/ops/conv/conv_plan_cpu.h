// ConvPlan: what a convolution or a transposed convolution reads for each position of its result.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "../../cpu/simd.h"
#include "conv_geometry_cpu.h"

namespace mezzo::cpu_kernels {

/** Positions of the result that use the same taps, and these taps. */
struct Pass {
  // Offset of each tap in the padded image, for all channels of a group, channel by channel.
  std::vector<std::int64_t> steps;
  // Offset of each position in the padded image.
  std::vector<std::int64_t> rows;
  // Index of each position in the result; empty if all positions are in order.
  std::vector<std::int64_t> places;
  // Offset of each tap's weight from the weight of its channels' first tap.
  std::vector<std::int64_t> taps;
  // Most rows of a block of lines: such that the positions of a tile are equally far apart.
  int block_rows = 32;
};

/** Distances of weights, in elements. */
struct WeightSteps {
  std::int64_t group = 0, out_channel = 0, in_channel = 0, tap = 1;
};

/** The numbers of channels of a group, and of terms per panel element. */
struct ConvChannels {
  std::int64_t in, out, terms;

  /** Returns the number of elements that hold the input channels of a group. */
  std::int64_t in_steps() const { return (in + terms - 1) / terms; }
};

/** The parameters shared by all tasks. */
struct ConvPlan {
  PaddedLayout layout{};
  std::vector<Pass> passes{};
  std::int64_t groups = 1;
  ConvChannels channels{};
  WeightSteps weight{};
  // If set, the images are copied window by window: the terms of a position are adjacent, tap by
  // tap, and the plan is that of a convolution with one tap and these terms as channels.
  std::optional<ConvGeometry> window{};

  /** Returns the offset of the weight of a step from the first weight of its output channel. */
  std::int64_t weight_of(const Pass& pass, std::int64_t step) const {
    const auto taps = static_cast<std::int64_t>(pass.taps.size());
    return step / taps * channels.terms * weight.in_channel +
           pass.taps[static_cast<std::size_t>(step % taps)];
  }
  /** Returns whether the layout is that of x, if its elements are those of a panel. */
  bool has_layout_of(const Images& x) const {
    return layout.is_unpadded(x.volume) &&
           (!x.channels_last() || layout.pixel_step == pixel_elements());
  }
  /** Returns the number of elements of a pixel. */
  std::int64_t pixel_elements() const { return groups * channels.in_steps(); }
  /** Returns the number of elements between the groups of an image, and between images. */
  std::int64_t group_step() const { return channels.in_steps() * layout.channel_step; }
  std::int64_t image_size() const {
    return layout.pixels() * std::max(layout.pixel_step, pixel_elements());
  }
};

/** Returns the plan of a convolution of images and a weight in these formats. */
ConvPlan direct_plan(const ConvGeometry& g, const ConvChannels& channels, MemoryFormat images,
                     MemoryFormat weight);

/** Returns the plan of a transposed convolution. `g` describes the convolution whose adjoint it is:
 *  g.out is read and g.in is written. */
ConvPlan transposed_plan(const ConvGeometry& g, const ConvChannels& channels, MemoryFormat images,
                         MemoryFormat weight);

// ---- positions as lanes -------------------------------------------------------------------------

/** Lanes for positions on every CPU, of which one or several vectors hold them. */
inline constexpr int kPositionLanes = 16;

/** Up to a vector of positions that lie side by side in the result and in the padded image. */
struct PositionBlock {
  std::int64_t from;   // offset in the padded image
  std::int64_t first;  // number of the first position
  std::int64_t count;
};

/** The positions of a pass in blocks. */
struct PositionBlocks {
  std::vector<PositionBlock> blocks;
  std::int64_t step = 1;  // between the offsets of adjacent positions

  /** Positions with these offsets, in blocks of up to `width`. With `repeats`, the last block of a
   *  longer run is a whole one, which repeats some positions. */
  PositionBlocks(const std::vector<std::int64_t>& rows, std::int64_t width, bool repeats) {
    const auto count = static_cast<std::int64_t>(rows.size());
    if (count > 1) step = rows[1] - rows[0] == 2 ? 2 : 1;
    for (std::int64_t first = 0; first < count;) {
      std::int64_t run = 1;
      while (first + run < count && row(rows, first + run) == row(rows, first + run - 1) + step)
        ++run;
      for (std::int64_t i = 0; i < run; i += width) {
        const std::int64_t begin =
            repeats ? std::max<std::int64_t>(0, std::min(i, run - width)) : i;
        blocks.push_back({row(rows, first + begin), first + begin, std::min(width, run - begin)});
      }
      first += run;
    }
  }

 private:
  static std::int64_t row(const std::vector<std::int64_t>& rows, std::int64_t i) {
    return rows[static_cast<std::size_t>(i)];
  }
};

/** Returns whether vectors hold adjacent positions instead of channels, of row-major images: where
 * a group has few output channels, as in depthwise convolutions and gradients of images. */
inline bool takes_positions(const ConvGeometry& g, std::int64_t out_channels, bool transposed) {
  constexpr std::int64_t kMost = 4;
  const std::int64_t width = transposed ? g.in[2] / g.stride[2] : g.out[2],
                     vectors = (width + kPositionLanes - 1) / kPositionLanes;
  return out_channels <= kMost && (transposed || g.stride[2] <= 2) &&
         2 * out_channels * vectors < width;
}

}  // namespace mezzo::cpu_kernels
