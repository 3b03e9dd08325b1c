// Convolution and transposed convolution without an im2col matrix. Register blocks of positions x
// output channels read the padded image through the offsets of positions and taps. Where a group
// has few output channels, vectors hold adjacent positions instead. The order of a sum is the same
// either way and in both memory formats. A transposed convolution runs one pass for each phase of
// its stride.
#include "../../core/dispatch.h"
#include "../../cpu/convert.h"
#include "../../cpu/gemm_pack.h"
#include "../../cpu/gemm_panels.h"
#include "../../cpu/gemm_tile.h"
#include "../../cpu/narrow.h"
#include "../../cpu/transpose.h"
#include "../../cpu/workspace.h"
#include "../../device/parallel.h"
#include "conv_micro_cpu.h"
#include "conv_plan_cpu.h"
#include "conv_winograd_cpu.h"

namespace mezzo::cpu_kernels {

namespace {

/** The weight of a convolution in one of the memory formats. */
struct ConvWeights {
  const void* data;
  DType dtype;
};

/** Runs a plan over a batch. */
template <class E> class Convolution {
  using T = SumOf<E>;

 public:
  Convolution(const ConvPlan& plan, const Images& x, const ConvWeights& w, const Tensor& bias,
              const Images& y, bool by_position = false)
      : plan_(plan),
        x_(x),
        y_(y),
        columns_(plan.channels.out),
        by_position_(by_position),
        // Vectors of positions may be read beyond the last one.
        reads_in_place_(!by_position && x_has_panel_elements() && plan.has_layout_of(x)) {
    load_bias(bias);
    pack_weights(w);
    if (by_position)
      for (const Pass& pass : plan.passes)
        positions_.emplace_back(pass.rows, Simd<T>::kWidth, true);
  }

  void run() {
    const std::int64_t units = plan_.groups * columns_.count;
    const std::int64_t batch = x_.volume.batch,
                       together = images_per_task(batch, y_.volume.pixels(), units);
    const std::int64_t chunks = ceil_div(batch, together);
    // With few chunks of images, the output channels are divided among tasks as well.
    // Each part copies the images once more, so there are few of them for few threads.
    const std::int64_t parts = std::min(units, ceil_div(enough_tasks(), chunks));
    const auto task = [&](std::int64_t index) {
      const std::int64_t chunk = index / parts, part = index % parts;
      run_chunk({chunk * together, std::min((chunk + 1) * together, batch)},
                {part * units / parts, (part + 1) * units / parts});
    };
    parallel_for(chunks * parts, task, cost_ns());
  }

 private:
  static constexpr std::int64_t kWidth = ColumnPanels<E>::kWidth;
  static constexpr std::int64_t kTilesTogether = 16;

  /** Returns whether the elements of x in memory are those of a panel. */
  bool x_has_panel_elements() const {
    if constexpr (!kRounds<E>) return x_.volume.dtype == dtype_of<E>();
    return x_.channels_last() && plan_.channels.in % Factors<E>::kTerms == 0 &&
           sizeof(E) == Factors<E>::kTerms * sizeof(BFloat16);
  }

  /** Copies the bias of each panel, or zeros, to whole panels. */
  void load_bias(const Tensor& given) {
    const std::int64_t units = plan_.groups * columns_.count;
    bias_ = Workspace<T>(units * kWidth);
    std::fill_n(bias_.data(), units * kWidth, T(0));
    if (!given.defined()) return;
    const Tensor bias = row_major(given);
    for (std::int64_t unit = 0; unit < units; ++unit) {
      const std::int64_t group = unit / columns_.count, q = unit % columns_.count;
      const std::int64_t first = group * plan_.channels.out + q * kWidth;
      convert(bias.dtype(),
              static_cast<const char*>(bias.raw_data()) +
                  first * static_cast<std::int64_t>(item_size(bias.dtype())),
              dtype_of<T>(), bias_.data() + unit * kWidth, columns_.valid(q));
    }
  }

  double cost_ns() const {
    double steps = 0;
    for (const Pass& pass : plan_.passes)
      steps += static_cast<double>(pass.steps.size()) * static_cast<double>(pass.rows.size());
    return steps * static_cast<double>(x_.volume.batch * y_.volume.channels) * 0.02 + 1000;
  }

  /** Packs the weights as [tap][channel] for each pass, group and panel of output channels. */
  void pack_weights(const ConvWeights& w) {
    std::int64_t size = 0;
    for (const Pass& pass : plan_.passes) {
      weight_offsets_.push_back(size);
      size += plan_.groups * columns_.packed_size(static_cast<std::int64_t>(pass.steps.size()));
    }
    weights_ = Workspace<E>(size);
    const auto one = [&](std::int64_t index) {
      const std::int64_t units = plan_.groups * columns_.count;
      const std::int64_t p = index / units, group = index % units / columns_.count,
                         q = index % columns_.count;
      pack_weight_panel(w, plan_.passes[static_cast<std::size_t>(p)], group, q,
                        panel_of(p, group, q));
    };
    parallel_for(static_cast<std::int64_t>(plan_.passes.size()) * plan_.groups * columns_.count,
                 one, static_cast<double>(size) * 0.5);
  }

  E* panel_of(std::int64_t p, std::int64_t group, std::int64_t q) const {
    const auto depth =
        static_cast<std::int64_t>(plan_.passes[static_cast<std::size_t>(p)].steps.size());
    return weights_.data() + weight_offsets_[static_cast<std::size_t>(p)] +
           (group * columns_.count + q) * kWidth * depth;
  }

  void pack_weight_panel(const ConvWeights& w, const Pass& pass, std::int64_t group, std::int64_t q,
                         E* to) const {
    const bool by_taps = plan_.weight.in_channel == 1 || plan_.weight.out_channel == 1;
    if (by_taps || kIsLine<E>)
      pack_weight_taps(w, pass, group, q, to);
    else if constexpr (kRounds<E>)
      pack_weight_pairs(w, pass, group, q, to);
    else
      pack_weight_numbers(w, pass, group, q, to);
  }

  const char* first_weight(const ConvWeights& w, std::int64_t group, std::int64_t q) const {
    return static_cast<const char*>(w.data) +
           (group * plan_.weight.group + q * kWidth * plan_.weight.out_channel) *
               static_cast<std::int64_t>(item_size(w.dtype));
  }

  /** Packs a channels-last weight tap by tap: the channels of a tap are contiguous. */
  void pack_weight_taps(const ConvWeights& w, const Pass& pass, std::int64_t group, std::int64_t q,
                        E* to) const {
    const auto item = static_cast<std::int64_t>(item_size(w.dtype));
    const std::int64_t width = columns_.packed_width(q),
                       step = static_cast<std::int64_t>(pass.taps.size()) * width;
    for (const std::int64_t tap : pass.taps) {
      const Matrix channels{first_weight(w, group, q) + tap * item, w.dtype,
                            plan_.weight.out_channel, plan_.weight.in_channel};
      pack_column_panel(channels, columns_.valid(q), plan_.channels.in,
                        PackedPanel(to, width, step));
      to += width;
    }
  }

  /** Pairs the weights of two input channels in rows of steps, and then transposes these. */
  void pack_weight_pairs(const ConvWeights& w, const Pass& pass, std::int64_t group, std::int64_t q,
                         E* to) const {
    constexpr std::int64_t kRun = 128;  // steps
    std::uint32_t rows[kWidth][kRun];
    const auto* base = reinterpret_cast<const std::uint16_t*>(first_weight(w, group, q));
    const auto count = static_cast<std::int64_t>(pass.steps.size()),
               taps = static_cast<std::int64_t>(pass.taps.size());
    // With an odd number of channels, the last steps have no second factor.
    const std::int64_t paired = plan_.channels.in / 2 * taps;
    const std::int64_t valid = columns_.valid(q), width = columns_.packed_width(q);
    for (std::int64_t first = 0; first < count; first += kRun) {
      const std::int64_t run = std::min(kRun, count - first);
      std::int64_t offsets[kRun];
      for (std::int64_t s = 0; s < run; ++s) offsets[s] = plan_.weight_of(pass, first + s);
      for (std::int64_t lane = 0; lane < valid; ++lane) {
        const std::uint16_t* from = base + lane * plan_.weight.out_channel;
        const std::int64_t both = std::clamp<std::int64_t>(paired - first, 0, run);
        for (std::int64_t s = 0; s < both; ++s)
          rows[lane][s] =
              std::uint32_t{from[offsets[s] + plan_.weight.in_channel]} << 16 | from[offsets[s]];
        for (std::int64_t s = both; s < run; ++s) rows[lane][s] = from[offsets[s]];
      }
      // Packing moves the bits of f32 elements unchanged.
      pack_panel({rows, DType::f32, kRun, 1}, valid, run,
                 PackedPanel(reinterpret_cast<float*>(to + first * width), width));
    }
  }

  void pack_weight_numbers(const ConvWeights& w, const Pass& pass, std::int64_t group,
                           std::int64_t q, E* to) const {
    const auto item = static_cast<std::int64_t>(item_size(w.dtype));
    const std::int64_t valid = columns_.valid(q), width = columns_.packed_width(q);
    const char* base = first_weight(w, group, q);
    // Steps with contiguous weights are packed together.
    const auto count = static_cast<std::int64_t>(pass.steps.size());
    for (std::int64_t s = 0; s < count;) {
      std::int64_t run = 1;
      const std::int64_t first = plan_.weight_of(pass, s);
      while (s + run < count && plan_.weight_of(pass, s + run) == first + run) ++run;
      pack_panel({base + first * item, w.dtype, plan_.weight.out_channel, 1}, valid, run,
                 PackedPanel(to + s * width, width));
      s += run;
    }
  }

  void run_chunk(Range images, Range units) {
    const std::int64_t count = images.end - images.begin, image_size = plan_.image_size();
    const std::int64_t beyond = by_position_ ? 2 * Simd<T>::kWidth : 0;
    const Workspace<E> copy(reads_in_place_ ? 0 : count * image_size + beyond);
    const Workspace<T> scratch(needs_scratch() ? count * kWidth * y_.volume.pixels() : 0);
    const Workspace<T> tiles(kTilesTogether * RegisterBlock<E>::kRows * kWidth);
    const E* image = copy.data();
    if (reads_in_place_)
      image = reinterpret_cast<const E*>(x_.at(images.begin, 0));
    else
      for (std::int64_t n = 0; n < count; ++n)
        copy_image(images.begin + n, copy.data() + n * image_size);
    if constexpr (!kRounds<E>) std::fill_n(copy.data() + count * image_size, beyond, E(0));
    std::vector<std::vector<std::int64_t>> rows;
    for (const Pass& pass : plan_.passes)
      rows.push_back(by_position_ ? std::vector<std::int64_t>{} : rows_of(pass, count));
    for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
      const std::int64_t group = unit / columns_.count, q = unit % columns_.count;
      const Target target{images, group, q, scratch.data(), bias_.data() + unit * kWidth};
      for (std::size_t p = 0; p < plan_.passes.size(); ++p)
        if (by_position_)
          run_positions(p, target, image + group * plan_.group_step());
        else
          run_pass(p, target, image + group * plan_.group_step(), rows[p].data(), tiles.data());
      finish(target);
    }
  }

  void copy_image(std::int64_t n, E* to) const {
    if constexpr (kIsLine<E>)
      if (plan_.window) return copy_windows(x_, n, plan_.groups, *plan_.window, plan_.layout, to);
    copy_padded(x_, n, plan_.groups, plan_.layout, to);
  }

  /** Returns the offsets of a pass's positions in that many images. The last one is repeated up to
   *  whole register blocks; the results of repetitions are not stored. */
  std::vector<std::int64_t> rows_of(const Pass& pass, std::int64_t images) const {
    const auto per_image = static_cast<std::int64_t>(pass.rows.size());
    const RowPanels<E> blocks(images * per_image, pass.block_rows);
    const auto whole = static_cast<std::size_t>(blocks.count * blocks.height);
    std::vector<std::int64_t> rows;
    rows.reserve(whole);
    for (std::int64_t n = 0; n < images; ++n)
      for (const std::int64_t row : pass.rows) rows.push_back(n * plan_.image_size() + row);
    if (!rows.empty()) rows.resize(whole, rows.back());
    return rows;
  }

  /** Returns whether sums are collected before they are rounded: those of a row-major result, as a
   *  tile has few adjacent positions. */
  bool needs_scratch() const { return y_.volume.dtype != dtype_of<T>() && !y_.channels_last(); }

  /** One panel of output channels of some images, and the buffer of its sums. */
  struct Target {
    Range images;
    std::int64_t group, q;
    T* scratch;
    const T* bias;  // of the panel's channels

    std::int64_t first_channel(std::int64_t channels_of_group) const {
      return group * channels_of_group + q * kWidth;
    }
  };

  /** Returns output channel `lane` of the panel in image n of the chunk. */
  char* result(const Target& t, std::int64_t n, std::int64_t lane) const {
    return y_.at(t.images.begin + n, t.first_channel(plan_.channels.out) + lane);
  }
  /** Returns the sums of that channel of a row-major result. */
  T* sums(const Target& t, std::int64_t n, std::int64_t lane) const {
    if (needs_scratch()) return t.scratch + (n * kWidth + lane) * y_.volume.pixels();
    return reinterpret_cast<T*>(result(t, n, lane));
  }

  /** Computes all positions of a pass in vectors of positions, with the bits of run_pass(). */
  void run_positions(std::size_t p, const Target& target, const E* image) {
    if constexpr (!kRounds<E>) {
      const PositionBlocks& positions = positions_[p];
      const auto plane =
          positions.step == 2 ? &Convolution::run_plane<2> : &Convolution::run_plane<1>;
      const std::int64_t image_size = plan_.image_size();
      const E* const weights = panel_of(static_cast<std::int64_t>(p), target.group, target.q);
      for (std::int64_t n = 0; n < target.images.end - target.images.begin; ++n)
        for (std::int64_t lane = 0; lane < columns_.valid(target.q); ++lane)
          plane(plan_.passes[p], positions.blocks, image + n * image_size,
                {weights + lane, columns_.packed_width(target.q)}, target.bias[lane],
                sums(target, n, lane));
    }
  }

  /** The weights of an output channel, `step` apart. */
  struct ChannelWeights {
    const E* data;
    std::int64_t step;
  };

  /** Computes the sums of a channel of an image for blocks of positions, which are kStep apart. */
  template <int kStep>
  static void run_plane(const Pass& pass, const std::vector<PositionBlock>& blocks, const E* image,
                        ChannelWeights weights, T bias, T* to) {
    using S = Simd<T>;
    constexpr std::size_t kTogether = 8;
    for (std::size_t first = 0; first < blocks.size(); first += kTogether) {
      const E* from[kTogether];
      typename S::V sums[kTogether];
      MZ_UNROLL
      for (std::size_t i = 0; i < kTogether; ++i) {  // the last ones repeat a block
        from[i] = image + blocks[std::min(first + i, blocks.size() - 1)].from;
        sums[i] = typename S::V{};
      }
      const E* weight = weights.data;
      for (const std::int64_t step : pass.steps) {
        const typename S::V factor = S::splat(*weight);
        weight += weights.step;
        MZ_UNROLL
        for (std::size_t i = 0; i < kTogether; ++i)
          if constexpr (kStep == 2)
            sums[i] = S::fma(S::load_every_second(from[i] + step), factor, sums[i]);
          else
            sums[i] = S::fma(S::load(from[i] + step), factor, sums[i]);
      }
      alignas(64) T finished[kTogether][S::kWidth];
      MZ_UNROLL
      for (std::size_t i = 0; i < kTogether; ++i) S::store(finished[i], sums[i] + S::splat(bias));
      for (std::size_t i = 0; i < kTogether && first + i < blocks.size(); ++i)
        store_positions(pass, blocks[first + i], finished[i], to);
    }
  }

  static void store_positions(const Pass& pass, const PositionBlock& block, const T* sums, T* to) {
    using S = Simd<T>;
    if (pass.places.empty()) {
      if (block.count == S::kWidth)
        S::store(to + block.first, S::load(sums));
      else
        std::copy_n(sums, block.count, to + block.first);
      return;
    }
    const std::int64_t* const places = pass.places.data() + block.first;
    for (std::int64_t i = 0; i < block.count; ++i) to[places[i]] = sums[i];
  }

  /** Computes all positions of a pass, several tiles at a time, so that long sums are computed in
   *  depth blocks. */
  void run_pass(std::size_t p, const Target& target, const E* image, const std::int64_t* rows,
                T* tiles) {
    const Pass& pass = plan_.passes[p];
    const RowPanels<E> blocks(
        static_cast<std::int64_t>(pass.rows.size()) * (target.images.end - target.images.begin),
        pass.block_rows);
    const TileScope<E> scope;
    const int vectors = columns_.vectors_of(target.q);
    const std::int64_t width = columns_.packed_width(target.q);
    const E* weights = panel_of(static_cast<std::int64_t>(p), target.group, target.q);
    const auto depth = static_cast<std::int64_t>(pass.steps.size());
    for (std::int64_t first = 0; first < blocks.count; first += kTilesTogether) {
      const std::int64_t count = std::min(kTilesTogether, blocks.count - first);
      const auto tile = [&](std::int64_t t) {
        return tiles + t * RegisterBlock<E>::kRows * kWidth;
      };
      for (std::int64_t from = 0; from < depth || from == 0; from += kDepthBlock<E>)
        for (std::int64_t t = 0; t < count; ++t)
          multiply_offsets<E>({blocks.height, blocks.height_of(first + t)}, vectors,
                              std::min(kDepthBlock<E>, depth - from), pass.steps.data() + from,
                              image, rows + (first + t) * blocks.height, weights + from * width,
                              tile(t), from > 0);
      for (std::int64_t t = 0; t < count; ++t)
        store_tile(target, pass, (first + t) * blocks.height, blocks.height_of(first + t), tile(t));
    }
  }

  void store_tile(const Target& target, const Pass& pass, std::int64_t at, std::int64_t count,
                  const T* tile) {
    const auto per_image = static_cast<std::int64_t>(pass.rows.size());
    while (count > 0) {
      const std::int64_t n = at / per_image, position = at % per_image;
      const std::int64_t run = std::min(count, per_image - position);
      const std::int64_t* places = pass.places.empty() ? nullptr : pass.places.data() + position;
      if (y_.channels_last())
        store_pixels(target, n, position, places, run, tile);
      else if (places)
        store_places(target, n, places, run, tile);
      else
        store_run(target, n, position, run, tile);
      at += run;
      count -= run;
      tile += run * kWidth;
    }
  }

  /** Stores positions of a channels-last result, whose channels are contiguous as in a tile. */
  void store_pixels(const Target& target, std::int64_t n, std::int64_t position,
                    const std::int64_t* places, std::int64_t run, const T* tile) {
    using S = Simd<T>;
    char* const first = result(target, n, 0);
    const std::int64_t valid = columns_.valid(target.q), bytes = y_.pixel_step() * y_.item();
    for (std::int64_t i = 0; i < run; ++i, tile += kWidth) {
      alignas(64) T pixel[kWidth];
      MZ_UNROLL
      for (std::int64_t lane = 0; lane < kWidth; lane += S::kWidth)
        S::store(pixel + lane, S::load(tile + lane) + S::load(target.bias + lane));
      narrow_row(pixel, y_.volume.dtype, first + (places ? places[i] : position + i) * bytes,
                 valid);
    }
  }

  /** Stores positions of a row-major result that are not adjacent. */
  void store_places(const Target& target, std::int64_t n, const std::int64_t* places,
                    std::int64_t run, const T* tile) {
    for (std::int64_t lane = 0; lane < columns_.valid(target.q); ++lane) {
      T* to = sums(target, n, lane);
      for (std::int64_t i = 0; i < run; ++i)
        to[places[i]] = tile[i * kWidth + lane] + target.bias[lane];
    }
  }

  /** Stores adjacent positions of a row-major result: a tile transposed. */
  void store_run(const Target& target, std::int64_t n, std::int64_t position, std::int64_t run,
                 const T* tile) {
    using S = Simd<T>;
    for (std::int64_t i = 0; i < run; i += S::kWidth)
      for (std::int64_t lane = 0; lane < columns_.valid(target.q); lane += S::kWidth) {
        const std::int64_t positions = std::min<std::int64_t>(S::kWidth, run - i);
        typename S::V square[S::kWidth];
        MZ_UNROLL
        for (int r = 0; r < S::kWidth; ++r)
          square[r] = r < positions ? S::load(tile + (i + r) * kWidth + lane) : typename S::V{};
        S::transpose(square);
        const std::int64_t lanes =
            std::min<std::int64_t>(S::kWidth, columns_.valid(target.q) - lane);
        for (std::int64_t l = 0; l < lanes; ++l) {
          T* to = sums(target, n, lane + l) + position + i;
          const typename S::V sum = square[l] + S::splat(target.bias[lane + l]);
          if (positions == S::kWidth)
            S::store(to, sum);
          else
            S::store_first(to, sum, positions);
        }
      }
  }

  /** Converts finished channels to the result's dtype. */
  void finish(const Target& target) {
    if (!needs_scratch()) return;
    for (std::int64_t n = 0; n < target.images.end - target.images.begin; ++n)
      for (std::int64_t lane = 0; lane < columns_.valid(target.q); ++lane)
        convert(dtype_of<T>(), sums(target, n, lane), y_.volume.dtype, result(target, n, lane),
                y_.volume.pixels());
  }

  const ConvPlan& plan_;
  Images x_, y_;
  ColumnPanels<E> columns_;
  bool by_position_, reads_in_place_;
  std::vector<PositionBlocks> positions_;  // of each pass
  Workspace<T> bias_;
  Workspace<E> weights_;
  std::vector<std::int64_t> weight_offsets_;
};

#if defined(__AVX512BF16__)
/** Returns whether finite f16 operands are multiplied by their parts. */
bool multiplies_by_parts(const Tensor& x, const Tensor& w) {
  const auto finite = [](const Tensor& t) {
    return is_finite({t.raw_data(), DType::f16, t.numel(), 1}, 1, t.numel());
  };
  return x.dtype() == DType::f16 && w.dtype() == DType::f16 && multiplies_half_by_parts() &&
         finite(x) && finite(w);
}
#endif

/** Returns a weight of 16 bits with the taps before the second dimension: its own memory, or a copy
 *  in `room`. */
[[maybe_unused]] const void* with_taps_outside(const Tensor& w, std::int64_t taps,
                                               Workspace<std::uint16_t>& room) {
  if (taps == 1 || dense_format(w) == MemoryFormat::channels_last) return w.raw_data();
  room = Workspace<std::uint16_t>(w.numel());
  const auto* from = static_cast<const std::uint16_t*>(w.raw_data());
  const std::int64_t channels = w.size(1), size = channels * taps;
  parallel_for(
      w.size(0),
      [&](std::int64_t i) {
        transpose(from + i * size, taps, room.data() + i * size, channels, channels, taps);
      },
      static_cast<double>(w.numel()) * 0.5);
  return room.data();
}

/** Computes a convolution with direct_plan, or a transposed one, whose geometry is that of the
 *  convolution from its result to its input, with transposed_plan; or either by Winograd's
 *  algorithm where that is faster. */
void convolve(Inputs in, Outputs out, const op::ConvAttrs& attrs, bool transposed) {
  if (out[0].numel() == 0) return;  // a plan lists all positions, whose number may then be huge
  const int dims = attrs.dims;
  const Volume read = volume_of(in[0], dims), written = volume_of(out[0], dims);
  const ConvGeometry geometry =
      conv_geometry(attrs, transposed ? written.size : read.size,
                    transposed ? read.size : written.size, volume_of(in[1], dims).size);
  const std::int64_t in_channels = read.channels / attrs.groups,
                     out_channels = written.channels / attrs.groups;
  const bool by_position = takes_positions(geometry, out_channels, transposed);
  const Tensor x = by_position ? row_major(in[0]) : dense(in[0], dims), w = dense(in[1], dims);
  const auto compute = [&](const Tensor& y) {
    const Images from = images_of(x, dims), to = images_of(y, dims);
    const auto run = [&]<class E>(std::type_identity<E>) {
      const ConvChannels channels{in_channels, out_channels, Factors<E>::kTerms};
      if constexpr (std::is_same_v<E, float>)
        if (winograd_pays(geometry, from.volume.batch, channels.in, channels.out, to.volume.size) &&
            winograd_convolve({from, to, w, in[2], geometry.pad, transposed}))
          return;
      const auto make_plan = transposed ? transposed_plan : direct_plan;
      if constexpr (kIsLine<E>) {
        const ConvPlan plan =
            make_plan(geometry, channels, from.format, MemoryFormat::channels_last);
        Workspace<std::uint16_t> room;
        Convolution<E>(plan, from, {with_taps_outside(w, geometry.taps(), room), w.dtype()}, in[2],
                       to)
            .run();
      } else {
        const ConvPlan plan = make_plan(geometry, channels, from.format, dense_format(w));
        Convolution<E>(plan, from, {w.raw_data(), w.dtype()}, in[2], to, by_position && !kRounds<E>)
            .run();
      }
    };
    const bool large = tiles_pay(to.volume.batch * to.volume.pixels(), out_channels,
                                 in_channels * geometry.taps());
    if (by_position && y.dtype() != DType::f64) return run(std::type_identity<float>{});
#if defined(__AVX512BF16__)
    if (large && multiplies_by_parts(x, w)) return run(std::type_identity<HalfLine>{});
#endif
    visit_factors(x.dtype(), w.dtype(), y.dtype() == DType::f64, large, run);
  };
  by_position ? with_row_major(out[0], compute) : with_dense(out[0], dims, compute);
}

}  // namespace

}  // namespace mezzo::cpu_kernels

namespace mezzo::op {

void ConvFunctions::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  cpu_kernels::convolve(in, out, attrs, false);
}

void ConvTransposeFunctions::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  cpu_kernels::convolve(in, out, attrs, true);
}

}  // namespace mezzo::op
