// Gradient of a convolution's weight: register blocks of taps x output channels, summed over
// positions. The two factors of a pair are those of two images at the same position. The batch is
// divided into chunks by shape alone; each has its own partial sums, which are added in order. If
// these sums are large, there are fewer chunks, and the taps are divided among tasks instead.
// Images, gradients and weight may each have either memory format. Where Winograd's algorithm is
// faster (conv_winograd_cpu.h), this computes only gradients that it finds not to be finite. Those
// of depthwise convolutions are sums of vectors of positions.
#include <cstring>

#include "../../core/dispatch.h"
#include "../../cpu/convert.h"
#include "../../cpu/fold.h"
#include "../../cpu/gemm_pack.h"
#include "../../cpu/gemm_panels.h"
#include "../../cpu/gemm_tile.h"
#include "../../cpu/transpose.h"
#include "../../cpu/workspace.h"
#include "../../device/parallel.h"
#include "conv_geometry_cpu.h"
#include "conv_micro_cpu.h"
#include "conv_plan_cpu.h"
#include "conv_winograd_cpu.h"

namespace mezzo::cpu_kernels {

namespace {

/** The division of the weights of an output channel into register blocks of equal height. A block
 *  holds weights whose images' elements are close in memory: all taps of some channels of row-major
 *  images, or one tap of some channels of channels-last images. */
template <class E> struct TapBlocks {
  TapBlocks(std::int64_t num_channels, std::int64_t num_taps, bool channels_last)
      : channels(num_channels),
        taps(num_taps),
        by_tap(kIsLine<E> ? num_channels >= kFewChannels : channels_last),
        panels(by_tap ? num_channels : num_channels * num_taps),
        of_panel(by_tap ? num_taps : 1) {}

  std::int64_t count() const { return panels.count * of_panel; }
  int height() const { return panels.height; }

  /** Returns the place of a weight in the order of blocks. */
  std::int64_t place_of(std::int64_t channel, std::int64_t tap) const {
    if (!by_tap) return channel * taps + tap;
    return (channel / panels.height * taps + tap) * panels.height + channel % panels.height;
  }
  /** Returns the channels that the blocks of some panels read. */
  Channels channels_of(Range some) const {
    const std::int64_t per_channel = by_tap ? 1 : taps;
    return {some.begin * panels.height / per_channel,
            ceil_div(std::min(some.end * panels.height, panels.rows), per_channel)};
  }
  /** Returns the offset of each place's element in the padded image. Places without a weight have
   *  that of some weight; their results are not stored. */
  std::vector<std::int64_t> offsets(const PaddedLayout& layout,
                                    const std::vector<std::int64_t>& taps_of_channel) const {
    std::vector<std::int64_t> all(static_cast<std::size_t>(count() * panels.height), 0);
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t tap = 0; tap < taps; ++tap)
        all[static_cast<std::size_t>(place_of(c, tap))] =
            c * layout.channel_step + taps_of_channel[static_cast<std::size_t>(tap)];
    return all;
  }

  /** Channels from which on blocks of lines hold one tap, so that their rows are evenly apart. */
  static constexpr std::int64_t kFewChannels = 12;

  std::int64_t channels, taps;
  bool by_tap;
  RowPanels<E> panels;
  std::int64_t of_panel;  // blocks
};

/** The memory of the weight: its first element, and the distance between output channels. */
struct WeightOut {
  MatrixOut rows;
  MemoryFormat format;
};

template <class E> class WeightGradient {
  using T = SumOf<E>;

 public:
  WeightGradient(const ConvGeometry& g, const Images& x, const Images& y, const WeightOut& w)
      : x_(x),
        y_(y),
        w_(w),
        groups_(g.groups),
        channels_in_(x.volume.channels / g.groups),
        columns_(y.volume.channels / g.groups),
        blocks_(channels_in_, g.taps(), x.channels_last()) {
    // The number of chunks decides in which order sums are added, so it depends on the size of the
    // weight instead of that of its tiles, which differs between CPUs.
    const std::int64_t size = y.volume.channels * channels_in_ * g.taps();
    const std::int64_t few =
        std::max<std::int64_t>(kMaxPartials / std::max<std::int64_t>(size, 1), 1);
    chunks_ = std::min({image_steps(), kEnoughTasks, few});
    // Each unit packs all gradients of its chunk, so there are few units for few threads.
    units_ = chunks_ == 0 ? 0 : std::min(ceil_div(enough_tasks(), chunks_), blocks_.panels.count);
    partials_ = Workspace<T>(std::max<std::int64_t>(chunks_, 1) * partial_size());
    layout_.before = g.pad;
    for (std::size_t d = 0; d < 3; ++d)
      layout_.size[d] = (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1;
    std::int64_t channels = 0;
    for (std::int64_t unit = 0; unit < units_; ++unit) {
      const Channels needed = blocks_.channels_of(panels_of(unit));
      channels = std::max(channels, needed.end - needed.begin);
    }
    layout_.set_format(x.format, channels);
    image_size_ = channels * layout_.pixels();
    rows_ = blocks_.offsets(layout_, position_offsets(layout_, g.kernel, g.dilation));
    list_steps(position_offsets(layout_, g.out, g.stride));
    list_places(w.format);
  }

  void run() {
    if (chunks_ == 0) std::fill_n(partials_.data(), partial_size(), T(0));
    parallel_for(
        chunks_ * units_, [&](std::int64_t task) { run_task(task / units_, task % units_); },
        static_cast<double>(x_.volume.batch * y_.volume.pixels()) *
            static_cast<double>(partial_size()) * 0.02);
    const std::int64_t parts = ceil_div(channels_in_ * blocks_.taps, kTaps);
    parallel_for(
        groups_ * columns_.count * parts,
        [&](std::int64_t task) { finish(task / parts, task % parts * kTaps); },
        static_cast<double>(chunks_ * partial_size()) * 0.5);
  }

 private:
  static constexpr std::int64_t kEnoughTasks = 16;
  /** Maximum number of elements in partial sums. */
  static constexpr std::int64_t kMaxPartials = std::int64_t{1} << 20;
  static constexpr std::int64_t kWidth = ColumnPanels<E>::kWidth;
  /** Taps that are finished together. */
  static constexpr std::int64_t kTaps = 128;

  /** Returns the number of steps of images: an image, or a pair of them. */
  std::int64_t image_steps() const { return steps_of<E>(x_.volume.batch); }
  std::int64_t tile_size() const { return blocks_.height() * kWidth; }
  std::int64_t partial_size() const {
    return groups_ * columns_.count * blocks_.count() * tile_size();
  }
  /** Returns the panels of blocks that a task computes. */
  Range panels_of(std::int64_t unit) const {
    return {unit * blocks_.panels.count / units_, (unit + 1) * blocks_.panels.count / units_};
  }

  /** Lists the positions of several images, so that the sums are long compared to the cost of
   *  loading and storing them. */
  void list_steps(const std::vector<std::int64_t>& positions) {
    together_ = std::clamp<std::int64_t>(
        256 / y_.volume.pixels(), 1,
        std::max<std::int64_t>(ceil_div(image_steps(), std::max<std::int64_t>(chunks_, 1)), 1));
    for (std::int64_t n = 0; n < together_; ++n)
      for (const std::int64_t position : positions) steps_.push_back(n * image_size_ + position);
  }

  /** Lists the places of an output channel's weights in the order of memory. */
  void list_places(MemoryFormat format) {
    const std::int64_t taps = blocks_.taps;
    for (std::int64_t i = 0; i < channels_in_ * taps; ++i)
      places_.push_back(format == MemoryFormat::channels_last
                            ? blocks_.place_of(i % channels_in_, i / channels_in_)
                            : blocks_.place_of(i / taps, i % taps));
  }

  void run_task(std::int64_t chunk, std::int64_t unit) {
    const std::int64_t positions = y_.volume.pixels();
    const Range images{chunk * image_steps() / chunks_, (chunk + 1) * image_steps() / chunks_},
        panels = panels_of(unit);
    const Range blocks{panels.begin * blocks_.of_panel, panels.end * blocks_.of_panel};
    const Channels channels = blocks_.channels_of(panels);
    const Workspace<E> image(together_ * image_size_), packed(kWidth * positions * together_);
    std::vector<std::int64_t> rows(rows_.begin() + blocks.begin * blocks_.height(),
                                   rows_.begin() + blocks.end * blocks_.height());
    for (std::int64_t& row : rows)
      row = std::max<std::int64_t>(row - channels.begin * layout_.channel_step, 0);
    for (std::int64_t first = images.begin; first < images.end; first += together_) {
      const std::int64_t count = std::min(together_, images.end - first);
      for (std::int64_t group = 0; group < groups_; ++group) {
        const std::int64_t base = group * channels_in_;
        for (std::int64_t n = 0; n < count; ++n)
          copy_padded_step(x_, first + n, {base + channels.begin, base + channels.end}, layout_,
                           image.data() + n * image_size_);
        for (std::int64_t q = 0; q < columns_.count; ++q) {
          for (std::int64_t n = 0; n < count; ++n)
            pack_gradients(first + n, group * columns_.columns + q * kWidth, q,
                           packed.data() + n * positions * columns_.packed_width(q));
          T* sums = partials_.data() + chunk * partial_size() +
                    ((group * columns_.count + q) * blocks_.count() + blocks.begin) * tile_size();
          add_panel(sums, q, count * positions, image.data(), rows, packed.data(),
                    first > images.begin);
        }
      }
    }
  }

  /** Packs the gradients of panel q, whose first channel is given, in step `images`. */
  void pack_gradients(std::int64_t images, std::int64_t channel, std::int64_t q, E* to) const {
    const std::int64_t n = images * Factors<E>::kTerms, positions = y_.volume.pixels();
    const PackedPanel<E> panel{to, columns_.packed_width(q)};
    const auto gradients_of = [&](std::int64_t image) {
      return Matrix{image < y_.volume.batch ? y_.at(image, channel) : nullptr, y_.volume.dtype,
                    y_.channel_step(), y_.pixel_step()};
    };
    if constexpr (kIsLine<E>)
      pack_gradient_lines(gradients_of, n, q, to);
    else if constexpr (kRounds<E>)
      pack_pairs(gradients_of(n), gradients_of(n + 1), columns_.valid(q), positions, panel);
    else
      pack_panel(gradients_of(n), columns_.valid(q), positions, panel);
  }

  /** Packs the tiles of each position, whose rows hold pairs of images. */
  template <class GradientsOf>
  void pack_gradient_lines(const GradientsOf& gradients_of, std::int64_t first, std::int64_t q,
                           E* to) const {
    constexpr std::int64_t kLanes = RegisterBlock<E>::kLanes, kPairs = Factors<E>::kTerms / 2;
    const std::int64_t positions = y_.volume.pixels(), vectors = columns_.vectors_of(q);
    auto* pairs = reinterpret_cast<BFloat16Pair*>(to);
    for (std::int64_t vector = 0; vector < vectors; ++vector)
      for (std::int64_t pair = 0; pair < kPairs; ++pair) {
        const Matrix one = gradients_of(first + 2 * pair),
                     other = gradients_of(first + 2 * pair + 1);
        const PackedPanel<BFloat16Pair> panel(pairs + (vector * kPairs + pair) * kLanes, kLanes,
                                              vectors * kPairs * kLanes);
        if (one.data)
          pack_pairs(from(one, vector * kLanes, 0), from(other, vector * kLanes, 0),
                     std::min(columns_.valid(q) - vector * kLanes, kLanes), positions, panel);
        else
          for (std::int64_t i = 0; i < positions; ++i)
            std::fill_n(panel.data + i * panel.step, kLanes, BFloat16Pair{0});
      }
  }

  void add_panel(T* sums, std::int64_t q, std::int64_t depth, const E* image,
                 const std::vector<std::int64_t>& rows, const E* packed, bool accumulate) {
    const TileScope<E> scope;
    const int height = blocks_.height();
    for (std::int64_t from = 0; from < depth; from += kDepthBlock<E>)
      for (std::size_t row = 0; row < rows.size(); row += static_cast<std::size_t>(height))
        multiply_offsets<E>({height, height}, columns_.vectors_of(q),
                            std::min(kDepthBlock<E>, depth - from), steps_.data() + from, image,
                            rows.data() + row, packed + from * columns_.packed_width(q),
                            sums + static_cast<std::int64_t>(row) * kWidth, accumulate || from > 0);
  }

  /** Computes up to kTaps weights, from number `first` on, of each output channel of a panel: sums
   *  the tiles over the chunks, and transposes them. */
  void finish(std::int64_t panel, std::int64_t first) {
    const std::int64_t taps = std::min(kTaps, channels_in_ * blocks_.taps - first),
                       q = panel % columns_.count;
    const T* tiles = partials_.data() + panel * blocks_.count() * tile_size();
    alignas(64) T sums[kTaps][kWidth], rows[kWidth][kTaps];
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      const T* tile = tiles + places_[static_cast<std::size_t>(first + tap)] * kWidth;
      std::copy_n(tile, kWidth, sums[tap]);
      for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) {
        const T* more = tile + chunk * partial_size();
        for (std::int64_t lane = 0; lane < kWidth; ++lane) sums[tap][lane] += more[lane];
      }
    }
    transpose(sums[0], kWidth, rows[0], kTaps, taps, kWidth);
    const std::int64_t channel = panel / columns_.count * columns_.columns + q * kWidth;
    for (std::int64_t lane = 0; lane < columns_.valid(q); ++lane)
      finish_row(rows[lane], channel + lane, first, taps, w_.rows, {});
  }

  Images x_, y_;
  WeightOut w_;
  std::int64_t groups_, channels_in_;
  ColumnPanels<E> columns_;
  TapBlocks<E> blocks_;
  std::int64_t chunks_ = 0, units_ = 0;  // parts of the batch, and of the taps
  Workspace<T> partials_;
  std::int64_t together_ = 1, image_size_ = 0;  // images per sum, and elements of each
  PaddedLayout layout_;
  std::vector<std::int64_t> steps_, rows_;  // offsets of positions and taps
  std::vector<std::int64_t> places_;
};

/** Sums of the products of an image and a gradient for some taps, in kPositionLanes lanes each. */
class TapSums {
  using S = Simd<float>;
  using V = typename S::V;
  static constexpr int kVectors = kPositionLanes / S::kWidth;

 public:
  static constexpr int kTaps = 8 / kVectors > 0 ? 8 / kVectors : 1;  // that registers hold

  /** Adds the products of all positions. `steps`: the offset of each tap in the image. */
  template <int kStep>
  void add(const PositionBlocks& positions, const float* image, const float* gradient,
           const std::array<std::int64_t, kTaps>& steps) {
    V all[kTaps][kVectors] = {};
    for (const PositionBlock& block : positions.blocks) {
      V given[kVectors];
      MZ_UNROLL
      for (int v = 0; v < kVectors; ++v)
        given[v] = S::load_first(gradient + block.first + v * S::kWidth, lanes_of(block, v));
      MZ_UNROLL
      for (int t = 0; t < kTaps; ++t) {
        const float* const from = image + block.from + steps[static_cast<std::size_t>(t)];
        MZ_UNROLL
        for (int v = 0; v < kVectors; ++v) {
          const float* const at = from + v * S::kWidth * kStep;
          const V value = kStep == 2 ? S::load_every_second(at) : S::load(at);
          // Elements beyond the block may not be finite.
          all[t][v] = S::fma(S::first_of(value, V{}, lanes_of(block, v)), given[v], all[t][v]);
        }
      }
    }
    MZ_UNROLL
    for (int t = 0; t < kTaps; ++t)
      totals_[static_cast<std::size_t>(t)] = detail::sum_of<float>(all[t]);
  }
  float operator[](std::int64_t tap) const { return totals_[static_cast<std::size_t>(tap)]; }

 private:
  static std::int64_t lanes_of(const PositionBlock& block, int vector) {
    return std::clamp<std::int64_t>(block.count - vector * S::kWidth, 0, S::kWidth);
  }

  std::array<float, kTaps> totals_;
};

/** The gradient of the weight of a convolution with one input and one output channel for each
 * group, of row-major images, in f32: sums over positions, added image by image. Bits depend on
 * shapes alone. */
void depthwise_weight(const ConvGeometry& g, const Images& x, const Images& y, const MatrixOut& w) {
  const ConvPlan plan =
      direct_plan(g, {1, 1, 1}, MemoryFormat::contiguous, MemoryFormat::contiguous);
  const Pass& pass = plan.passes[0];
  const PositionBlocks positions(pass.rows, kPositionLanes, false);
  const auto taps = static_cast<std::int64_t>(pass.steps.size());
  const std::int64_t padded = plan.layout.pixels(), beyond = 2 * kPositionLanes;
  const bool converts = y.volume.dtype != DType::f32;
  const auto channel = [&](std::int64_t c) {
    const Workspace<float> image(padded + beyond), gradient(converts ? y.volume.pixels() : 0),
        weights(taps);
    std::fill_n(image.data() + padded, beyond, 0.0f);
    std::fill_n(weights.data(), taps, 0.0f);
    for (std::int64_t n = 0; n < x.volume.batch; ++n) {
      copy_padded_step(x, n, {c, c + 1}, plan.layout, image.data());
      const auto* given = reinterpret_cast<const float*>(y.at(n, c));
      if (converts) {
        convert(y.volume.dtype, y.at(n, c), DType::f32, gradient.data(), y.volume.pixels());
        given = gradient.data();
      }
      constexpr std::int64_t kTaps = TapSums::kTaps;
      for (std::int64_t first = 0; first < taps; first += kTaps) {
        std::array<std::int64_t, kTaps> steps;  // the last ones repeat a tap
        for (std::int64_t t = 0; t < kTaps; ++t)
          steps[static_cast<std::size_t>(t)] =
              pass.steps[static_cast<std::size_t>(std::min(first + t, taps - 1))];
        TapSums sums;
        if (positions.step == 2)
          sums.add<2>(positions, image.data(), given, steps);
        else
          sums.add<1>(positions, image.data(), given, steps);
        for (std::int64_t t = 0; t < kTaps && first + t < taps; ++t)
          weights.data()[pass.taps[static_cast<std::size_t>(first + t)]] += sums[t];
      }
    }
    finish_row(weights.data(), c, 0, taps, w, {});
  };
  parallel_for(x.volume.channels, channel,
               static_cast<double>(x.volume.batch * x.volume.channels * taps) *
                   static_cast<double>(y.volume.pixels()) * 0.1);
}

}  // namespace

}  // namespace mezzo::cpu_kernels

namespace mezzo::op {

using namespace cpu_kernels;

void ConvWeight::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const int dims = attrs.dims;
  if (in[0].numel() == 0)  // positions are listed below, whose number may be huge without a batch
    return with_dense(out[0], dims, [](const Tensor& w) {
      std::memset(w.raw_data(), 0, static_cast<std::size_t>(w.numel()) * item_size(w.dtype()));
    });
  const Volume read = volume_of(in[0], dims), given = volume_of(in[1], dims);
  const ConvGeometry geometry =
      conv_geometry(attrs, read.size, given.size, leading(attrs.sizes, dims, 1));
  const bool is_depthwise = out[0].dtype() != DType::f64 && read.channels == attrs.groups &&
                            given.channels == attrs.groups && takes_positions(geometry, 1, false);
  const Tensor x = is_depthwise ? row_major(in[0]) : dense(in[0], dims),
               y = is_depthwise ? row_major(in[1]) : dense(in[1], dims);
  const Images from = images_of(x, dims), to = images_of(y, dims);
  with_dense(out[0], dims, [&](const Tensor& w) {
    WeightOut weight{{w.raw_data(), w.dtype(), w.numel() / w.size(0), 1}, dense_format(w)};
    if (w.dtype() != x.dtype()) weight.rows.rounds_to = x.dtype();
    if (is_depthwise) return depthwise_weight(geometry, from, to, weight.rows);
    const bool large =
        tiles_pay(w.numel() / w.size(0), to.volume.channels / attrs.groups, from.volume.batch) &&
        to.volume.pixels() >= 4;
    visit_factors(x.dtype(), y.dtype(), w.dtype() == DType::f64, large,
                  [&]<class E>(std::type_identity<E>) {
                    if constexpr (std::is_same_v<E, float>)
                      if (winograd_pays(geometry, from.volume.batch, from.volume.channels,
                                        to.volume.channels, to.volume.size) &&
                          winograd_weight(from, to, geometry.pad, weight.rows, weight.format))
                        return;
                    WeightGradient<E>(geometry, from, to, weight).run();
                  });
  });
}

}  // namespace mezzo::op
