// Gradient of a convolution's weight: register blocks of taps x output channels, summed over
// positions. The two factors of a pair are those of two images at the same position. The batch is
// divided into chunks by shape alone; each has its own partial sums, which are added in order. If
// these sums are large, there are fewer chunks, and the taps are divided among tasks instead.
#include "../core/dispatch.h"
#include "../core/row_major.h"
#include "../device/parallel.h"
#include "conv_geometry.h"
#include "conv_micro.h"
#include "gemm_pack.h"
#include "gemm_panels.h"
#include "workspace.h"

namespace mezzo::cpu_kernels {

namespace {

template <class E> class WeightGradient {
  using T = SumOf<E>;

 public:
  WeightGradient(const ConvGeometry& g, const Volume& x, const Volume& y, const MatrixOut& w)
      : x_(x),
        y_(y),
        w_(w),
        groups_(g.groups),
        channels_in_(x.channels / g.groups),
        columns_(y.channels / g.groups),
        blocks_(channels_in_ * g.taps()),
        taps_(g.taps()) {
    // The number of chunks decides in which order sums are added, so it depends on the size of the
    // weight instead of that of its tiles, which differs between CPUs.
    const std::int64_t size = y.channels * channels_in_ * taps_;
    const std::int64_t few =
        std::max<std::int64_t>(kMaxPartials / std::max<std::int64_t>(size, 1), 1);
    chunks_ = std::min({steps_of<E>(x.batch), kEnoughTasks, few});
    units_ = chunks_ == 0 ? 0 : std::min(ceil_div(kEnoughTasks, chunks_), blocks_.count);
    partials_ = Workspace<T>(std::max<std::int64_t>(chunks_, 1) * partial_size());
    layout_.before = g.pad;
    for (std::size_t d = 0; d < 3; ++d)
      layout_.size[d] = (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1;
    rows_ = tap_offsets(layout_, channels_in_, g.kernel, g.dilation);
    // Rows after the last tap repeat it; their results are not stored.
    rows_.resize(static_cast<std::size_t>(blocks_.count * blocks_.height),
                 rows_.empty() ? 0 : rows_.back());
    list_steps(position_offsets(layout_, g.out, g.stride));
  }

  void run() {
    if (chunks_ == 0) std::fill_n(partials_.data(), partial_size(), T(0));
    parallel_for(
        chunks_ * units_, [&](std::int64_t task) { run_task(task / units_, task % units_); },
        static_cast<double>(x_.batch * y_.pixels()) * static_cast<double>(partial_size()) * 0.02);
    const std::int64_t parts = ceil_div(blocks_.rows, kTaps);
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
  static constexpr std::int64_t kTaps = 64;

  /** Returns the number of steps of images: an image, or a pair of them. */
  std::int64_t image_steps() const { return steps_of<E>(x_.batch); }
  std::int64_t tile_size() const { return blocks_.height * kWidth; }
  std::int64_t partial_size() const {
    return groups_ * columns_.count * blocks_.count * tile_size();
  }
  Range blocks_of(std::int64_t unit) const {
    return {unit * blocks_.count / units_, (unit + 1) * blocks_.count / units_};
  }
  /** Returns the input channels of a group that some blocks of taps read. */
  Channels channels_of(Range blocks) const {
    return {blocks.begin * blocks_.height / taps_,
            ceil_div(std::min(blocks.end * blocks_.height, blocks_.rows), taps_)};
  }

  /** Lists the positions of several images, so that the sums are long compared to the cost of
   *  loading and storing them. */
  void list_steps(const std::vector<std::int64_t>& positions) {
    together_ = std::clamp<std::int64_t>(
        256 / y_.pixels(), 1,
        std::max<std::int64_t>(ceil_div(image_steps(), std::max<std::int64_t>(chunks_, 1)), 1));
    std::int64_t channels = 0;
    for (std::int64_t unit = 0; unit < units_; ++unit) {
      const Channels needed = channels_of(blocks_of(unit));
      channels = std::max(channels, needed.end - needed.begin);
    }
    image_size_ = channels * layout_.channel_size();
    for (std::int64_t n = 0; n < together_; ++n)
      for (const std::int64_t position : positions) steps_.push_back(n * image_size_ + position);
  }

  void run_task(std::int64_t chunk, std::int64_t unit) {
    const std::int64_t positions = y_.pixels();
    const Range images{chunk * image_steps() / chunks_, (chunk + 1) * image_steps() / chunks_},
        blocks = blocks_of(unit);
    const Channels channels = channels_of(blocks);
    const Workspace<E> image(together_ * image_size_), packed(kWidth * positions * together_);
    std::vector<std::int64_t> rows(rows_.begin() + blocks.begin * blocks_.height,
                                   rows_.begin() + blocks.end * blocks_.height);
    for (std::int64_t& row : rows) row -= channels.begin * layout_.channel_size();
    for (std::int64_t first = images.begin; first < images.end; first += together_) {
      const std::int64_t count = std::min(together_, images.end - first);
      for (std::int64_t group = 0; group < groups_; ++group) {
        const std::int64_t base = group * channels_in_;
        for (std::int64_t n = 0; n < count; ++n)
          copy_images(first + n, {base + channels.begin, base + channels.end},
                      image.data() + n * image_size_);
        for (std::int64_t q = 0; q < columns_.count; ++q) {
          for (std::int64_t n = 0; n < count; ++n)
            pack_gradients(first + n, group * columns_.columns + q * kWidth, q,
                           packed.data() + n * positions * columns_.packed_width(q));
          T* sums = partials_.data() + chunk * partial_size() +
                    ((group * columns_.count + q) * blocks_.count + blocks.begin) * tile_size();
          add_panel(sums, q, count * positions, image.data(), rows, packed.data(),
                    first > images.begin);
        }
      }
    }
  }

  /** Returns the address of a channel in an image, or nullptr after the last image. */
  static const char* channel_of(const Volume& x, std::int64_t image, std::int64_t channel) {
    return image < x.batch ? x.channel(image, channel) : nullptr;
  }

  /** Copies channels of the images whose elements form step `images`. */
  void copy_images(std::int64_t images, Channels channels, E* to) const {
    const std::int64_t n = images * Factors<E>::kTerms;
    for (std::int64_t c = channels.begin; c < channels.end; ++c, to += layout_.channel_size())
      copy_padded(x_, x_.channel(n, c), channel_of(x_, n + 1, c), layout_, to);
  }

  /** Packs the gradients of panel q, whose first channel is given, in these images. */
  void pack_gradients(std::int64_t images, std::int64_t channel, std::int64_t q, E* to) const {
    const std::int64_t n = images * Factors<E>::kTerms, positions = y_.pixels();
    const Matrix gradients{y_.channel(n, channel), y_.dtype, positions, 1};
    if constexpr (Factors<E>::kTerms == 2)
      pack_pairs(gradients, {channel_of(y_, n + 1, channel), y_.dtype, positions, 1},
                 columns_.valid(q), positions, columns_.packed_width(q), to);
    else
      pack_panel(gradients, columns_.valid(q), positions, columns_.packed_width(q), to);
  }

  void add_panel(T* sums, std::int64_t q, std::int64_t depth, const E* image,
                 const std::vector<std::int64_t>& rows, const E* packed, bool accumulate) {
    const OffsetKernel<E> kernel = offset_kernel_for<E>(blocks_.height, columns_.vectors_of(q));
    for (std::int64_t from = 0; from < depth; from += kDepthBlock)
      for (std::size_t row = 0; row < rows.size(); row += static_cast<std::size_t>(blocks_.height))
        kernel(std::min(kDepthBlock, depth - from), steps_.data() + from, image, rows.data() + row,
               packed + from * columns_.packed_width(q),
               sums + static_cast<std::int64_t>(row) * kWidth, accumulate || from > 0);
  }

  /** Computes up to kTaps weights, from tap `first` on, of each output channel of a panel: sums the
   *  tiles over the chunks, and transposes them. */
  void finish(std::int64_t panel, std::int64_t first) {
    const std::int64_t taps = std::min(kTaps, blocks_.rows - first), q = panel % columns_.count;
    const T* tiles = partials_.data() + panel * blocks_.count * tile_size() + first * kWidth;
    alignas(64) T rows[kWidth][kTaps];
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      alignas(64) T sums[kWidth];
      std::copy_n(tiles + tap * kWidth, kWidth, sums);
      for (std::int64_t chunk = 1; chunk < chunks_; ++chunk) {
        const T* more = tiles + chunk * partial_size() + tap * kWidth;
        for (std::int64_t lane = 0; lane < kWidth; ++lane) sums[lane] += more[lane];
      }
      for (std::int64_t lane = 0; lane < kWidth; ++lane) rows[lane][tap] = sums[lane];
    }
    const std::int64_t channel = panel / columns_.count * columns_.columns + q * kWidth;
    for (std::int64_t lane = 0; lane < columns_.valid(q); ++lane)
      finish_row(rows[lane], channel + lane, first, taps, w_, {});
  }

  Volume x_, y_;
  MatrixOut w_;
  std::int64_t groups_, channels_in_;
  ColumnPanels<E> columns_;
  RowPanels<E> blocks_;
  std::int64_t taps_;
  std::int64_t chunks_ = 0, units_ = 0;  // parts of the batch, and of the taps
  Workspace<T> partials_;
  std::int64_t together_ = 1, image_size_ = 0;  // images per sum, and elements of each
  PaddedLayout layout_;
  std::vector<std::int64_t> steps_, rows_;  // offsets of positions and taps
};

}  // namespace

}  // namespace mezzo::cpu_kernels

namespace mezzo::op {

using namespace cpu_kernels;

void ConvWeight::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  const Tensor x = row_major(in[0]), y = row_major(in[1]);
  const Volume from = volume_of(x, attrs.dims), to = volume_of(y, attrs.dims);
  const ConvGeometry geometry =
      conv_geometry(attrs, from.size, to.size, leading(attrs.sizes, attrs.dims, 1));
  with_row_major(out[0], [&](const Tensor& w) {
    const MatrixOut rows{w.raw_data(), w.dtype(), w.numel() / w.size(0), 1};
    visit_factors(
        x.dtype(), y.dtype(), w.dtype() == DType::f64,
        [&]<class E>(std::type_identity<E>) { WeightGradient<E>(geometry, from, to, rows).run(); });
  });
}

}  // namespace mezzo::op
