// Convolution and transposed convolution without an im2col matrix. Register blocks of positions x
// output channels read the padded image in place, through the offsets of positions and taps. A
// transposed convolution runs one pass for each phase of its stride.
#include "../core/dispatch.h"
#include "../core/row_major.h"
#include "../device/parallel.h"
#include "conv_geometry.h"
#include "conv_micro.h"
#include "convert.h"
#include "gemm_pack.h"
#include "gemm_panels.h"
#include "workspace.h"

namespace mezzo::cpu_kernels {

namespace {

/** Positions of the result that use the same taps, and these taps. */
struct Pass {
  // Offset of each tap in the padded image, for all channels of a group.
  std::vector<std::int64_t> steps;
  // Offset of each position in the padded image.
  std::vector<std::int64_t> rows;
  // Index of each position in the result's channel; empty if all positions are in order.
  std::vector<std::int64_t> places;
  // Offset of each tap's weight from the first weight of its output channel.
  std::vector<std::int64_t> taps;
};

/** The parameters shared by all tasks. */
struct ConvPlan {
  PaddedLayout layout{};
  std::vector<Pass> passes{};
  std::int64_t groups = 1;
  std::int64_t channels_in = 1, channels_out = 1;  // of a group
  std::int64_t terms = 1;                          // input channels per panel element
  // Strides in the weight.
  std::int64_t weight_group = 0, weight_out_channel = 0, weight_in_channel = 0;

  /** Returns the number of elements that hold the input channels of a group. */
  std::int64_t channel_steps() const { return ceil_div(channels_in, terms); }
};

/** The numbers of channels of a group, and of terms per panel element. */
struct ConvChannels {
  std::int64_t in, out, terms;
};

ConvPlan direct_plan(const ConvGeometry& g, const ConvChannels& channels) {
  ConvPlan plan{.groups = g.groups,
                .channels_in = channels.in,
                .channels_out = channels.out,
                .terms = channels.terms};
  plan.layout.before = g.pad;
  for (std::size_t d = 0; d < 3; ++d)
    plan.layout.size[d] = (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1;
  Pass pass;
  pass.steps = tap_offsets(plan.layout, plan.channel_steps(), g.kernel, g.dilation);
  pass.rows = position_offsets(plan.layout, g.out, g.stride);
  plan.weight_in_channel = g.taps();
  plan.weight_out_channel = plan.channels_in * g.taps();
  plan.weight_group = plan.channels_out * plan.weight_out_channel;
  for (std::int64_t c = 0; c < plan.channel_steps(); ++c)
    for (std::int64_t tap = 0; tap < g.taps(); ++tap)
      pass.taps.push_back(c * plan.terms * plan.weight_in_channel + tap);
  plan.passes.push_back(std::move(pass));
  return plan;
}

/** One dimension of a transposed convolution in one phase: positions phase, phase + stride, ... of
 *  the result. */
struct Phase {
  std::int64_t first = 0, count = 0;
  std::vector<std::int64_t> taps;  // taps that reach these positions
  // For each tap, the input position it adds to the first of them; may be outside the input.
  std::vector<std::int64_t> source;
};

std::vector<Phase> phases_of(std::int64_t out, std::int64_t kernel, std::int64_t stride,
                             std::int64_t dilation, std::int64_t pad) {
  std::vector<Phase> phases;
  for (std::int64_t first = 0; first < std::min(stride, out); ++first) {
    Phase phase{first, ceil_div(out - first, stride), {}, {}};
    for (std::int64_t k = 0; k < kernel; ++k) {
      const std::int64_t reach = first + pad - k * dilation;
      if (reach % stride != 0) continue;
      phase.taps.push_back(k);
      phase.source.push_back(reach / stride);
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

/** Computes the zero padding of the input with which every tap of every phase is in bounds. */
void pad_for(const std::vector<Phase>& phases, std::int64_t in, std::int64_t& before,
             std::int64_t& size) {
  std::int64_t low = 0, high = in;
  for (const Phase& phase : phases)
    for (const std::int64_t source : phase.source) {
      low = std::min(low, source);
      high = std::max(high, source + phase.count);
    }
  before = -low;
  size = high - low;
}

Pass transposed_pass(const ConvPlan& plan, const ConvGeometry& g, const Phase& z, const Phase& y,
                     const Phase& x) {
  Pass pass;
  const PaddedLayout& layout = plan.layout;
  pass.rows = position_offsets(layout, {z.count, y.count, x.count}, {1, 1, 1});
  for (std::int64_t i = 0; i < z.count; ++i)
    for (std::int64_t j = 0; j < y.count; ++j)
      for (std::int64_t k = 0; k < x.count; ++k)
        pass.places.push_back(((z.first + i * g.stride[0]) * g.in[1] + y.first + j * g.stride[1]) *
                                  g.in[2] +
                              x.first + k * g.stride[2]);
  for (std::int64_t c = 0; c < plan.channel_steps(); ++c)
    for (std::size_t i = 0; i < z.taps.size(); ++i)
      for (std::size_t j = 0; j < y.taps.size(); ++j)
        for (std::size_t k = 0; k < x.taps.size(); ++k) {
          pass.steps.push_back(c * layout.channel_size() +
                               layout.offset(z.source[i] + layout.before[0],
                                             y.source[j] + layout.before[1],
                                             x.source[k] + layout.before[2]));
          const std::int64_t tap = (z.taps[i] * g.kernel[1] + y.taps[j]) * g.kernel[2] + x.taps[k];
          pass.taps.push_back(c * plan.terms * plan.weight_in_channel + tap);
        }
  const bool all_in_order = g.stride == Extent{1, 1, 1};
  if (all_in_order) pass.places.clear();
  return pass;
}

/** Returns the plan of a transposed convolution. `g` describes the convolution whose adjoint it is:
 *  g.out is read and g.in is written. */
ConvPlan transposed_plan(const ConvGeometry& g, const ConvChannels& channels) {
  ConvPlan plan{.groups = g.groups,
                .channels_in = channels.in,
                .channels_out = channels.out,
                .terms = channels.terms};
  plan.weight_in_channel = plan.channels_out * g.taps();
  plan.weight_out_channel = g.taps();
  plan.weight_group = plan.channels_in * plan.weight_in_channel;
  std::array<std::vector<Phase>, 3> phases;
  for (std::size_t d = 0; d < 3; ++d) {
    phases[d] = phases_of(g.in[d], g.kernel[d], g.stride[d], g.dilation[d], g.pad[d]);
    pad_for(phases[d], g.out[d], plan.layout.before[d], plan.layout.size[d]);
  }
  for (const Phase& z : phases[0])
    for (const Phase& y : phases[1])
      for (const Phase& x : phases[2]) plan.passes.push_back(transposed_pass(plan, g, z, y, x));
  return plan;
}

/** Runs a plan over a batch. */
template <class E> class Convolution {
  using T = SumOf<E>;

 public:
  Convolution(const ConvPlan& plan, const Volume& x, const Tensor& w, const Tensor& bias,
              const Volume& y)
      : plan_(plan),
        x_(x),
        y_(y),
        columns_(plan.channels_out),
        in_place_(y.dtype == dtype_of<T>()) {
    if (bias.defined()) {
      const CastScope no_casts(nullptr);
      bias_ = bias.detach().to(dtype_of<T>()).contiguous();
    }
    pack_weights(w);
  }

  void run() {
    const std::int64_t units = plan_.groups * columns_.count;
    const std::int64_t together = images_per_task(x_.batch, y_.pixels(), units);
    const std::int64_t chunks = ceil_div(x_.batch, together);
    // With few chunks of images, the output channels are divided among tasks as well.
    const std::int64_t parts = std::min(units, ceil_div(kEnoughTasks, chunks));
    const auto task = [&](std::int64_t index) {
      const std::int64_t chunk = index / parts, part = index % parts;
      run_chunk({chunk * together, std::min((chunk + 1) * together, x_.batch)},
                {part * units / parts, (part + 1) * units / parts});
    };
    parallel_for(chunks * parts, task, cost_ns());
  }

 private:
  static constexpr std::int64_t kWidth = ColumnPanels<E>::kWidth;
  static constexpr std::int64_t kTilesTogether = 16;
  static constexpr std::int64_t kEnoughTasks = 16;

  double cost_ns() const {
    double steps = 0;
    for (const Pass& pass : plan_.passes)
      steps += static_cast<double>(pass.steps.size()) * static_cast<double>(pass.rows.size());
    return steps * static_cast<double>(x_.batch * plan_.channels_out * plan_.groups) * 0.02 + 1000;
  }

  /** Packs the weights as [tap][channel] for each pass, group and panel of output channels. */
  void pack_weights(const Tensor& w) {
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

  void pack_weight_panel(const Tensor& w, const Pass& pass, std::int64_t group, std::int64_t q,
                         E* to) const {
    if constexpr (Factors<E>::kTerms == 2)
      pack_weight_pairs(w, pass, group, q, to);
    else
      pack_weight_numbers(w, pass, group, q, to);
  }

  const char* first_weight(const Tensor& w, std::int64_t group, std::int64_t q) const {
    return static_cast<const char*>(w.raw_data()) +
           (group * plan_.weight_group + q * kWidth * plan_.weight_out_channel) *
               static_cast<std::int64_t>(item_size(w.dtype()));
  }

  /** Pairs the weights of two input channels in rows of steps, and then transposes these. */
  void pack_weight_pairs(const Tensor& w, const Pass& pass, std::int64_t group, std::int64_t q,
                         E* to) const {
    constexpr std::int64_t kRun = 128;  // steps
    std::uint32_t rows[kWidth][kRun];
    const auto* base = reinterpret_cast<const std::uint16_t*>(first_weight(w, group, q));
    const auto count = static_cast<std::int64_t>(pass.taps.size());
    const std::int64_t taps_per_channel = count / std::max<std::int64_t>(plan_.channel_steps(), 1);
    // With an odd number of channels, the last steps have no second factor.
    const std::int64_t paired = plan_.channels_in / 2 * taps_per_channel;
    const std::int64_t valid = columns_.valid(q), width = columns_.packed_width(q);
    for (std::int64_t first = 0; first < count; first += kRun) {
      const std::int64_t run = std::min(kRun, count - first);
      for (std::int64_t lane = 0; lane < valid; ++lane) {
        const std::uint16_t* from = base + lane * plan_.weight_out_channel;
        const std::int64_t* taps = pass.taps.data() + first;
        const std::int64_t both = std::clamp<std::int64_t>(paired - first, 0, run);
        for (std::int64_t s = 0; s < both; ++s)
          rows[lane][s] =
              std::uint32_t{from[taps[s] + plan_.weight_in_channel]} << 16 | from[taps[s]];
        for (std::int64_t s = both; s < run; ++s) rows[lane][s] = from[taps[s]];
      }
      // Packing moves the bits of f32 elements unchanged.
      pack_panel<float>({rows, DType::f32, kRun, 1}, valid, run, width,
                        reinterpret_cast<float*>(to + first * width));
    }
  }

  void pack_weight_numbers(const Tensor& w, const Pass& pass, std::int64_t group, std::int64_t q,
                           E* to) const {
    const auto item = static_cast<std::int64_t>(item_size(w.dtype()));
    const std::int64_t valid = columns_.valid(q), width = columns_.packed_width(q);
    const char* base = first_weight(w, group, q);
    // Taps with contiguous weights are packed together.
    const auto count = static_cast<std::int64_t>(pass.taps.size());
    for (std::int64_t s = 0; s < count;) {
      std::int64_t run = 1;
      const std::int64_t first = pass.taps[static_cast<std::size_t>(s)];
      while (s + run < count && pass.taps[static_cast<std::size_t>(s + run)] == first + run) ++run;
      pack_panel<E>({base + first * item, w.dtype(), plan_.weight_out_channel, 1}, valid, run,
                    width, to + s * width);
      s += run;
    }
  }

  void run_chunk(Range images, Range units) {
    const std::int64_t count = images.end - images.begin;
    const std::int64_t group_size = plan_.channel_steps() * plan_.layout.channel_size(),
                       image_size = plan_.groups * group_size;
    const Workspace<E> image(count * image_size);
    const Workspace<T> scratch(in_place_ ? 0 : count * kWidth * y_.pixels());
    const Workspace<T> tiles(kTilesTogether * RegisterBlock<E>::kRows * kWidth);
    for (std::int64_t n = 0; n < count; ++n)
      copy_image(images.begin + n, image.data() + n * image_size);
    for (std::int64_t unit = units.begin; unit < units.end; ++unit) {
      const std::int64_t group = unit / columns_.count, q = unit % columns_.count;
      const Target target{images, group, q, scratch.data()};
      for (std::size_t p = 0; p < plan_.passes.size(); ++p)
        run_pass(p, target, image.data() + group * group_size, image_size, tiles.data());
      finish(target);
    }
  }

  void copy_image(std::int64_t n, E* to) const {
    for (std::int64_t group = 0; group < plan_.groups; ++group)
      for (std::int64_t c = 0; c < plan_.channels_in; c += plan_.terms) {
        const std::int64_t channel = group * plan_.channels_in + c;
        const bool has_second = plan_.terms == 2 && c + 1 < plan_.channels_in;
        copy_padded(x_, x_.channel(n, channel), has_second ? x_.channel(n, channel + 1) : nullptr,
                    plan_.layout, to);
        to += plan_.layout.channel_size();
      }
  }

  /** One panel of output channels of some images, and the buffer of its sums. */
  struct Target {
    Range images;
    std::int64_t group, q;
    T* scratch;
  };

  /** Returns the sums of output channel `lane` of the panel in image n of the chunk. */
  T* sums(const Target& t, std::int64_t n, std::int64_t lane) const {
    if (!in_place_) return t.scratch + (n * kWidth + lane) * y_.pixels();
    return reinterpret_cast<T*>(
        y_.channel(t.images.begin + n, t.group * plan_.channels_out + t.q * kWidth + lane));
  }

  /** Computes all positions of a pass, several tiles at a time, so that long sums are computed in
   *  depth blocks. */
  void run_pass(std::size_t p, const Target& target, const E* image, std::int64_t image_size,
                T* tiles) {
    const Pass& pass = plan_.passes[p];
    const auto per_image = static_cast<std::int64_t>(pass.rows.size());
    const std::int64_t positions = per_image * (target.images.end - target.images.begin);
    const RowPanels<E> blocks(positions);
    const int vectors = columns_.vectors_of(target.q);
    const std::int64_t width = columns_.packed_width(target.q);
    const E* weights = panel_of(static_cast<std::int64_t>(p), target.group, target.q);
    const auto depth = static_cast<std::int64_t>(pass.steps.size());
    const OffsetKernel<E> kernel = offset_kernel_for<E>(blocks.height, vectors);
    std::int64_t rows[kTilesTogether][RegisterBlock<E>::kRows];
    for (std::int64_t first = 0; first < blocks.count; first += kTilesTogether) {
      const std::int64_t count = std::min(kTilesTogether, blocks.count - first);
      std::int64_t n = first * blocks.height / per_image,
                   position = first * blocks.height % per_image;
      for (std::int64_t t = 0; t < count; ++t)
        for (int i = 0; i < blocks.height; ++i) {
          rows[t][i] = n * image_size + pass.rows[static_cast<std::size_t>(position)];
          // Rows after the last position repeat it; their results are not stored.
          const bool last = (first + t) * blocks.height + i >= positions - 1;
          if (!last && ++position == per_image) position = 0, ++n;
        }
      const auto tile = [&](std::int64_t t) {
        return tiles + t * RegisterBlock<E>::kRows * kWidth;
      };
      for (std::int64_t from = 0; from < depth || from == 0; from += kDepthBlock)
        for (std::int64_t t = 0; t < count; ++t)
          kernel(std::min(kDepthBlock, depth - from), pass.steps.data() + from, image, rows[t],
                 weights + from * width, tile(t), from > 0);
      for (std::int64_t t = 0; t < count; ++t)
        store_tile(target, pass, (first + t) * blocks.height, blocks.height_of(first + t), tile(t));
    }
  }

  /** Stores a tile transposed: in a tile channels are contiguous, in the result positions are. */
  void store_tile(const Target& target, const Pass& pass, std::int64_t at, std::int64_t count,
                  const T* tile) {
    const auto per_image = static_cast<std::int64_t>(pass.rows.size());
    while (count > 0) {
      const std::int64_t n = at / per_image, position = at % per_image;
      const std::int64_t run = std::min(count, per_image - position);
      if (pass.places.empty())
        store_run(target, n, position, run, tile);
      else
        for (std::int64_t lane = 0; lane < columns_.valid(target.q); ++lane) {
          T* to = sums(target, n, lane);
          const T bias = bias_of(target, lane);
          for (std::int64_t i = 0; i < run; ++i)
            to[pass.places[static_cast<std::size_t>(position + i)]] =
                tile[i * kWidth + lane] + bias;
        }
      at += run;
      count -= run;
      tile += run * kWidth;
    }
  }

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
          const typename S::V sum = square[l] + S::splat(bias_of(target, lane + l));
          if (positions == S::kWidth)
            S::store(to, sum);
          else
            S::store_first(to, sum, positions);
        }
      }
  }

  T bias_of(const Target& target, std::int64_t lane) const {
    return bias_.defined()
               ? bias_.data<T>()[target.group * plan_.channels_out + target.q * kWidth + lane]
               : T(0);
  }

  /** Converts finished channels to the result's dtype. */
  void finish(const Target& target) {
    if (in_place_) return;
    const std::int64_t first = target.group * plan_.channels_out + target.q * kWidth;
    for (std::int64_t n = 0; n < target.images.end - target.images.begin; ++n)
      for (std::int64_t lane = 0; lane < columns_.valid(target.q); ++lane)
        convert(dtype_of<T>(), sums(target, n, lane), y_.dtype,
                y_.channel(target.images.begin + n, first + lane), y_.pixels());
  }

  const ConvPlan& plan_;
  Volume x_, y_;
  ColumnPanels<E> columns_;
  bool in_place_;
  Tensor bias_;  // as T
  Workspace<E> weights_;
  std::vector<std::int64_t> weight_offsets_;
};

/** Runs the plan that `make_plan` returns for the channels of a group. */
template <class MakePlan>
void run_plan(MakePlan make_plan, std::int64_t groups, const Volume& x, const Tensor& w,
              const Tensor& bias, const Volume& y) {
  visit_factors(x.dtype, w.dtype(), y.dtype == DType::f64, [&]<class E>(std::type_identity<E>) {
    const ConvPlan plan =
        make_plan(ConvChannels{x.channels / groups, y.channels / groups, Factors<E>::kTerms});
    Convolution<E>(plan, x, w, bias, y).run();
  });
}

}  // namespace

}  // namespace mezzo::cpu_kernels

namespace mezzo::op {

using namespace cpu_kernels;

void ConvFunctions::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor x = row_major(in[0]), w = row_major(in[1]);
  if (out[0].numel() == 0) return;  // a plan lists all positions, whose number may then be huge
  with_row_major(out[0], [&](const Tensor& y) {
    const Volume from = volume_of(x, attrs.dims), to = volume_of(y, attrs.dims);
    const ConvGeometry geometry =
        conv_geometry(attrs, from.size, to.size, volume_of(w, attrs.dims).size);
    const auto plan = [&](const ConvChannels& channels) { return direct_plan(geometry, channels); };
    run_plan(plan, attrs.groups, from, w, in[2], to);
  });
}

void ConvTransposeFunctions::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor x = row_major(in[0]), w = row_major(in[1]);
  if (out[0].numel() == 0) return;  // a plan lists all positions, whose number may then be huge
  with_row_major(out[0], [&](const Tensor& y) {
    const Volume from = volume_of(x, attrs.dims), to = volume_of(y, attrs.dims);
    const ConvGeometry geometry =
        conv_geometry(attrs, to.size, from.size, volume_of(w, attrs.dims).size);
    const auto plan = [&](const ConvChannels& channels) {
      return transposed_plan(geometry, channels);
    };
    run_plan(plan, attrs.groups, from, w, in[2], to);
  });
}

}  // namespace mezzo::op
