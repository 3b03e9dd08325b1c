// Gradient of the weight: 16 products of transformed images and transformed gradients, summed over
// tiles. The tiles are divided into chunks by shape alone; each has its own partial sums, which are
// added in order. If these are large, there are fewer chunks, and the channels are divided among
// tasks instead. The rows of a product are output channels, its columns input channels.
#include <atomic>

#include "../../device/parallel.h"
#include "conv_winograd_cpu.h"
#include "conv_winograd_tiles_cpu.h"

namespace mezzo::cpu_kernels {

namespace {

constexpr std::int64_t kTaps = 9;

class WinogradWeightGradient {
 public:
  WinogradWeightGradient(const Images& x, const Images& y, const Extent& pad, const MatrixOut& w,
                         MemoryFormat weight_format)
      : x_(x),
        y_(y),
        w_(w),
        weight_format_(weight_format),
        in_(x.volume.channels),
        out_(y.volume.channels),
        row_(whole_vectors(in_)),
        grid_(tile_grid(y.volume.size[1], y.volume.size[2], pad[1], pad[2])),
        together_(std::clamp<std::int64_t>(kTilesTogether / grid_.per_image(), 1, x.volume.batch)) {
    const std::int64_t tiles = together_ * grid_.per_image();
    chunks_ = std::clamp<std::int64_t>(kMaxPartials / (kWinogradProducts * in_ * out_), 1,
                                       std::clamp<std::int64_t>(tiles / kLeastTiles, 1, kTasks));
    partials_ = Workspace<float>(chunks_ * partial_size());
  }

  /** Computes all weights. Returns whether they are finite. */
  bool run() {
    Workspace<float> x_copy, y_copy;
    const std::int64_t batch = x_.volume.batch;
    for (std::int64_t n = 0; n < batch; n += together_) {
      const Range images{n, std::min(n + together_, batch)};
      x_pixels_ = pixel_images(x_, images, x_copy);
      y_pixels_ = pixel_images(y_, images, y_copy);
      if (x_copy.data()) load_pixels(x_, images, x_pixels_);
      if (y_copy.data()) load_pixels(y_, images, y_pixels_);
      add_images(images.end - images.begin, n > 0);
    }
    return finish();
  }

 private:
  static constexpr std::int64_t kTasks = 16;
  /** Maximum number of elements in partial sums. */
  static constexpr std::int64_t kMaxPartials = std::int64_t{1} << 20;
  /** Tiles whose images are copied together, and the fewest of them in a chunk. */
  static constexpr std::int64_t kTilesTogether = 4096, kLeastTiles = 64;
  /** Channels of a task, and tiles that it transforms together: they fit the L2 cache. */
  static constexpr std::int64_t kChannels = 128, kBlock = 128;
  /** Output channels that are finished together. */
  static constexpr std::int64_t kRowsTogether = 8;

  std::int64_t product_size() const { return out_ * row_; }
  std::int64_t partial_size() const { return kWinogradProducts * product_size(); }

  /** Adds the products of some images to the partial sums. */
  void add_images(std::int64_t images, bool accumulate) {
    const std::int64_t tiles = images * grid_.per_image();
    const std::int64_t in_units = ceil_div(in_, kChannels), out_units = ceil_div(out_, kChannels),
                       units = in_units * out_units;
    const auto task = [&](std::int64_t index) {
      const std::int64_t chunk = index / units, unit = index % units;
      const std::int64_t from_in = unit % in_units * kChannels,
                         from_out = unit / in_units * kChannels;
      add_tiles(chunk, {chunk * tiles / chunks_, (chunk + 1) * tiles / chunks_},
                {from_in, std::min(from_in + kChannels, in_)},
                {from_out, std::min(from_out + kChannels, out_)}, accumulate);
    };
    parallel_for(
        chunks_ * units, task,
        static_cast<double>(tiles * kWinogradProducts) * static_cast<double>(in_ * out_) * 0.01);
  }

  /** Adds the products of some tiles and channels to a chunk's sums. */
  void add_tiles(std::int64_t chunk, Range tiles, Channels in, Channels out, bool accumulate) {
    const std::int64_t ins = whole_vectors(in.end - in.begin),
                       outs = whole_vectors(out.end - out.begin);
    const std::int64_t x_step = tile_step(ins), y_step = tile_step(outs);
    const Workspace<float> x(kWinogradProducts * kBlock * x_step),
        y(kWinogradProducts * kBlock * y_step), outside(std::max(row_, whole_vectors(out_)));
    std::fill_n(outside.data(), std::max(row_, whole_vectors(out_)), 0.0f);
    float* const sums = partials_.data() + chunk * partial_size() + out.begin * row_ + in.begin;
    const RowPanels<float> rows(out.end - out.begin);
    const ColumnPanels<float> columns(ins);
    if (tiles.begin == tiles.end && !accumulate) clear(sums, rows.rows, ins);
    for (std::int64_t first = tiles.begin; first < tiles.end; first += kBlock) {
      const std::int64_t count = std::min(kBlock, tiles.end - first);
      for (std::int64_t t = 0; t < count; ++t) {
        transform_image(pixels_read(grid_, x_pixels_, first + t, outside.data()), in.begin, ins,
                        x.data() + t * x_step, kBlock * x_step);
        transform_gradient(pixels_of_tile(grid_, y_pixels_, first + t, outside.data()), out.begin,
                           outs, y.data() + t * y_step, kBlock * y_step);
      }
      for (std::int64_t e = 0; e < kWinogradProducts; ++e)
        multiply_panels(rows, columns, count, {y.data() + e * kBlock * y_step, 1, y_step},
                        {x.data() + e * kBlock * x_step, x_step}, columns.kWidth,
                        sums + e * product_size(), row_, accumulate || first > tiles.begin);
    }
  }

  /** Sets the sums of a chunk without tiles to 0. */
  void clear(float* sums, std::int64_t rows, std::int64_t columns) const {
    for (std::int64_t e = 0; e < kWinogradProducts; ++e)
      for (std::int64_t row = 0; row < rows; ++row)
        std::fill_n(sums + e * product_size() + row * row_, columns, 0.0f);
  }

  bool finish() {
    std::atomic<bool> finite{true};
    const auto task = [&](std::int64_t index) {
      const Workspace<float> sums(kWinogradProducts * row_), taps(kTaps * row_),
          weights(kTaps * in_);
      const std::int64_t first = index * kRowsTogether;
      for (std::int64_t row = first; row < std::min(first + kRowsTogether, out_); ++row)
        if (!finish_row_of(row, sums.data(), taps.data(), weights.data())) finite = false;
    };
    parallel_for(ceil_div(out_, kRowsTogether), task,
                 static_cast<double>(chunks_ * partial_size()));
    return finite;
  }

  /** Computes the weights of an output channel. Returns whether they are finite. */
  bool finish_row_of(std::int64_t row, float* sums, float* taps, float* weights) const {
    for (std::int64_t e = 0; e < kWinogradProducts; ++e) {
      float* const sum = sums + e * row_;
      const float* partial = partials_.data() + e * product_size() + row * row_;
      std::copy_n(partial, row_, sum);
      for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) {
        partial += partial_size();
        for (std::int64_t c = 0; c < row_; ++c) sum[c] += partial[c];
      }
    }
    const bool finite = weights_of_products(sums, row_, row_, taps, row_);
    const bool last = weight_format_ == MemoryFormat::channels_last;
    const std::int64_t to_tap = last ? in_ : 1, to_channel = last ? 1 : kTaps;
    for (std::int64_t tap = 0; tap < kTaps; ++tap)
      for (std::int64_t c = 0; c < in_; ++c)
        weights[tap * to_tap + c * to_channel] = taps[tap * row_ + c];
    finish_row(weights, row, 0, kTaps * in_, w_, {});
    return finite;
  }

  Images x_, y_;
  MatrixOut w_;
  MemoryFormat weight_format_;
  std::int64_t in_, out_;  // channels
  std::int64_t row_;       // input channels in whole vectors
  TileGrid grid_;
  std::int64_t together_, chunks_ = 1;  // images that are copied together; parts of their tiles
  Workspace<float> partials_;
  PixelImages x_pixels_, y_pixels_;  // the images that are read at present
};

}  // namespace

bool winograd_weight(const Images& x, const Images& y, const Extent& pad, const MatrixOut& w,
                     MemoryFormat weight_format) {
  return WinogradWeightGradient(x, y, pad, w, weight_format).run();
}

}  // namespace mezzo::cpu_kernels
