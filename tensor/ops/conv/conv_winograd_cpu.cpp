// A block of tiles is transformed, multiplied by the transformed weights of some output channels
// and transformed back while it is in the L2 cache. Blocks depend on the shape alone, and no result
// depends on its block. Images in another form than f32 with adjacent channels are copied first,
// and results are rounded from such a copy, some images at a time.
#include "conv_winograd_cpu.h"

#include <atomic>
#include <cmath>
#include <vector>

#include "../../cpu/convert.h"
#include "../../cpu/gemm_pack.h"
#include "../../device/parallel.h"
#include "conv_micro_cpu.h"
#include "conv_winograd_tiles_cpu.h"

namespace mezzo::cpu_kernels {

bool winograd_pays(const ConvGeometry& g, std::int64_t batch, std::int64_t channels_in,
                   std::int64_t channels_out, const Extent& out) {
  constexpr std::int64_t kLeastChannels = 32, kLeastTiles = 32;
  const Extent ones{1, 1, 1};
  const bool fits = g.groups == 1 && g.kernel == Extent{1, 3, 3} && g.stride == ones &&
                    g.dilation == ones && g.in[0] == 1 && g.out[0] == 1 && g.pad[0] == 0;
  if (!fits || std::min(channels_in, channels_out) < kLeastChannels) return false;
  const std::int64_t tiles = ceil_div(out[1], 2) * ceil_div(out[2], 2);
  const bool full_tiles = out[1] * out[2] >= 3 * tiles;  // of the four results of each
  return full_tiles && batch * tiles >= kLeastTiles;
}

namespace {

constexpr std::int64_t kTaps = 9;

class WinogradConvolution {
 public:
  explicit WinogradConvolution(const WinogradCall& call)
      : call_(call),
        in_(call.x.volume.channels),
        out_(call.y.volume.channels),
        columns_(whole_vectors(out_)),
        grid_(tile_grid(call.y.volume.size[1], call.y.volume.size[2], pad(1), pad(2))) {
    load_bias();
    list_steps();
  }

  /** Packs and transforms the weights. Returns whether all of these are finite. */
  bool prepare_weights() {
    taps_ = Workspace<float>(columns_.count * tap_panel());
    weights_ = Workspace<float>(columns_.count * weight_panel());
    std::atomic<bool> finite{true};
    const auto panel = [&](std::int64_t q) {
      const std::int64_t width = columns_.packed_width(q);
      float* const taps = taps_.data() + q * tap_panel();
      pack_taps(q, taps);
      for (std::int64_t c = 0; c < in_; ++c)
        if (!transform_weights(taps + c * kTaps * width, width, call_.transposed, width,
                               weights_.data() + q * weight_panel() + c * kWidth, in_ * kWidth))
          finite = false;
    };
    parallel_for(columns_.count, panel, static_cast<double>(columns_.count * weight_panel()));
    return finite;
  }

  void run() {
    const bool in_place = are_pixel_images(call_.x) && are_pixel_images(call_.y);
    const std::int64_t batch = call_.y.volume.batch,
                       copied = ceil_div(kTilesCopied, grid_.per_image()),
                       together = in_place ? batch : std::min(copied, batch);
    Workspace<float> x_copy, y_copy;
    for (std::int64_t n = 0; n < batch; n += together) {
      const Range images{n, std::min(n + together, batch)};
      x_ = pixel_images(call_.x, images, x_copy);
      y_ = pixel_images(call_.y, images, y_copy);
      if (x_copy.data()) load_pixels(call_.x, images, x_);
      run_images(images.end - images.begin);
      if (y_copy.data()) store_pixels(y_, call_.y, images);
    }
  }

 private:
  static constexpr std::int64_t kWidth = ColumnPanels<float>::kWidth;
  static constexpr std::int64_t kEnoughTasks = 8;
  /** Output channels whose products are in the cache together. */
  static constexpr std::int64_t kChannelsTogether = 64;
  static constexpr std::int64_t kPanelsTogether = kChannelsTogether / kWidth;
  /** Tiles whose images are copied together. */
  static constexpr std::int64_t kTilesCopied = 512;

  /** Returns the tiles of a block, whose transforms take less than an L2 cache. */
  std::int64_t block_tiles() const {
    constexpr std::int64_t kRows = 14, kElements = std::int64_t{1} << 17;
    const std::int64_t fit = kElements / (kWinogradProducts * tile_step(in_)) / kRows;
    return kRows * std::clamp<std::int64_t>(fit, 2, 4);
  }

  /** Returns the padding of the images that are read: a transposed convolution is a convolution
   *  with the taps in reverse order. */
  std::int64_t pad(std::size_t dim) const {
    return call_.transposed ? 2 - call_.pad[dim] : call_.pad[dim];
  }
  /** Returns the number of elements in the taps, and in the transformed weights, of a panel of
   *  output channels. */
  std::int64_t tap_panel() const { return kTaps * in_ * kWidth; }
  std::int64_t weight_panel() const { return kWinogradProducts * in_ * kWidth; }

  void load_bias() {
    bias_ = Workspace<float>(columns_.columns);
    std::fill_n(bias_.data(), columns_.columns, 0.0f);
    if (!call_.bias.defined()) return;
    const Tensor bias = row_major(call_.bias);
    convert(bias.dtype(), bias.raw_data(), DType::f32, bias_.data(), out_);
  }

  /** Lists the offsets of a result's terms in a copy of the pixels of its tile. */
  void list_steps() {
    for (std::int64_t c = 0; c < in_; ++c)
      for (std::int64_t tap = 0; tap < kTaps; ++tap) {
        const std::int64_t place = call_.transposed ? kTaps - 1 - tap : tap;
        steps_.push_back((place / 3 * 4 + place % 3) * in_ + c);
      }
  }

  /** Packs the weights of a panel of output channels as [input channel][tap][output channel]. */
  void pack_taps(std::int64_t q, float* to) const {
    const bool last = dense_format(call_.w) == MemoryFormat::channels_last;
    const std::int64_t inner = last ? 1 : kTaps, outer = kTaps * call_.w.size(1);
    const std::int64_t to_out = call_.transposed ? inner : outer,
                       to_in = call_.transposed ? outer : inner,
                       to_tap = last ? call_.w.size(1) : 1;
    const std::int64_t valid = columns_valid(q), width = columns_.packed_width(q);
    const Matrix all{call_.w.raw_data(), call_.w.dtype(), to_out, to_tap};
    const Matrix first = from(all, q * kWidth, 0);
    if (to_in == kTaps) return pack_panel(first, valid, in_ * kTaps, PackedPanel(to, width));
    for (std::int64_t tap = 0; tap < kTaps; ++tap) {
      Matrix channels = from(first, 0, tap);
      channels.column = to_in;
      pack_panel(channels, valid, in_, PackedPanel(to + tap * width, width, kTaps * width));
    }
  }
  std::int64_t columns_valid(std::int64_t q) const { return std::min(kWidth, out_ - q * kWidth); }

  /** Computes the results of some images. If there are few blocks of tiles, the output channels are
   *  divided among tasks as well. */
  void run_images(std::int64_t images) {
    const std::int64_t tiles = images * grid_.per_image(), blocks = ceil_div(tiles, block_tiles());
    const std::int64_t units = ceil_div(columns_.count, kPanelsTogether),
                       parts = std::min(units, ceil_div(kEnoughTasks, blocks));
    const auto task = [&](std::int64_t index) {
      const std::int64_t first = index / parts * block_tiles(), part = index % parts;
      const Range panels{part * units / parts * kPanelsTogether,
                         std::min((part + 1) * units / parts * kPanelsTogether, columns_.count)};
      run_block({first, std::min(first + block_tiles(), tiles)}, panels);
    };
    parallel_for(
        blocks * parts, task,
        static_cast<double>(tiles * kWinogradProducts) * static_cast<double>(in_ * out_) * 0.01);
  }

  void run_block(Range tiles, Range panels) const {
    const std::int64_t count = tiles.end - tiles.begin, step = tile_step(in_),
                       all = whole_vectors(in_);
    const Workspace<float> images(kWinogradProducts * count * step), outside(all);
    const Workspace<float> products(kWinogradProducts * count * kChannelsTogether);
    std::fill_n(outside.data(), all, 0.0f);
    for (std::int64_t t = 0; t < count; ++t)
      transform_image(pixels_read(grid_, x_, tiles.begin + t, outside.data()), 0, all,
                      images.data() + t * step, count * step);
    for (std::int64_t q = panels.begin; q < panels.end; q += kPanelsTogether) {
      multiply(q, count, images.data(), products.data());
      store(q, tiles, outside.data(), products.data());
    }
  }

  /** Returns the number of channels, in whole vectors, of the panels from q on that are computed
   *  together. */
  std::int64_t channels_together(std::int64_t q) const {
    return std::min(kChannelsTogether, columns_.columns - q * kWidth);
  }

  void multiply(std::int64_t q, std::int64_t count, const float* images, float* products) const {
    const RowPanels<float> rows(count);
    const ColumnPanels<float> columns(channels_together(q));
    const std::int64_t step = tile_step(in_);
    for (std::int64_t e = 0; e < kWinogradProducts; ++e) {
      const float* weights = weights_.data() + q * weight_panel() + e * in_ * kWidth;
      multiply_panels(rows, columns, in_, {images + e * count * step, step, 1}, {weights, kWidth},
                      weight_panel(), products + e * count * kChannelsTogether, kChannelsTogether,
                      false);
    }
  }

  void store(std::int64_t q, Range tiles, float* outside, const float* products) const {
    const std::int64_t count = tiles.end - tiles.begin, channels = channels_together(q);
    alignas(64) float dropped[kChannelsTogether];
    for (std::int64_t t = 0; t < count; ++t) {
      TilePixels<2> pixels = pixels_of_tile(grid_, y_, tiles.begin + t, nullptr);
      for (float*& pixel : pixels.at) pixel = pixel ? pixel + q * kWidth : dropped;
      const bool finite =
          pixels_of_products(products + t * kChannelsTogether, count * kChannelsTogether,
                             bias_.data() + q * kWidth, channels, pixels);
      if (!finite) repair(q, tiles.begin + t, outside, pixels, dropped);
    }
  }

  /** Computes again the results that are not finite, of a tile and of the channels from panel q on.
   *  `pixels` are those of the result, or `dropped`. */
  void repair(std::int64_t q, std::int64_t tile, float* outside, const TilePixels<2>& pixels,
              const float* dropped) const {
    const Workspace<float> copy(kWinogradProducts * in_);
    const TilePixels<4> read = pixels_read(grid_, x_, tile, outside);
    for (std::int64_t i = 0; i < kWinogradProducts; ++i)
      std::copy_n(read.at[i], in_, copy.data() + i * in_);
    const std::int64_t rows[4] = {0, in_, 4 * in_, 5 * in_};
    alignas(64) float sums[4 * kWidth];
    for (std::int64_t c = 0; c < channels_together(q); c += kWidth) {
      const std::int64_t panel = q + c / kWidth;
      multiply_offsets<float>({4, 4}, columns_.vectors_of(panel), kTaps * in_, steps_.data(),
                              copy.data(), rows, taps_.data() + panel * tap_panel(), sums, false);
      for (std::int64_t i = 0; i < 4; ++i)
        if (pixels.at[i] != dropped) repair_pixel(panel, sums + i * kWidth, pixels.at[i] + c);
    }
  }

  void repair_pixel(std::int64_t panel, const float* sums, float* result) const {
    const float* bias = bias_.data() + panel * kWidth;
    for (std::int64_t lane = 0; lane < columns_.packed_width(panel); ++lane)
      if (!std::isfinite(result[lane])) result[lane] = sums[lane] + bias[lane];
  }

  const WinogradCall& call_;
  std::int64_t in_, out_;        // channels
  ColumnPanels<float> columns_;  // output channels in whole vectors
  TileGrid grid_;
  Workspace<float> bias_, taps_, weights_;
  std::vector<std::int64_t> steps_;
  PixelImages x_, y_;  // the images that are read and written at present
};

}  // namespace

bool winograd_convolve(const WinogradCall& call) {
  WinogradConvolution convolution(call);
  if (!convolution.prepare_weights()) return false;
  convolution.run();
  return true;
}

}  // namespace mezzo::cpu_kernels
