// A convolution has one pass, a transposed convolution one for each phase of its stride.
#include "conv_plan_cpu.h"

#include <algorithm>

#include "../../cpu/gemm_panels.h"

namespace mezzo::cpu_kernels {

namespace {

/** Returns the distances in a weight of dimensions [groups * a, b, taps] whose first dimension is
 *  that of the output channels, or else of the input channels. */
WeightSteps weight_steps(std::int64_t a, std::int64_t b, std::int64_t taps, MemoryFormat format,
                         bool out_first) {
  const bool last = format == MemoryFormat::channels_last;
  const std::int64_t first = b * taps, second = last ? 1 : taps;
  return {.group = a * first,
          .out_channel = out_first ? first : second,
          .in_channel = out_first ? second : first,
          .tap = last ? b : 1};
}

/** Returns the distance of channels-last pixels in the padded images. Pixels that are a multiple of
 *  256 bytes apart share few sets of the L1 cache, where the taps of a register block would evict
 *  each other, so a cache line is left between them. */
std::int64_t pixel_step(const ConvPlan& plan, std::int64_t taps) {
  constexpr std::int64_t kElementsOf256Bytes = 64, kLine = 16;
  const std::int64_t elements = plan.pixel_elements();
  return taps > 1 && elements % kElementsOf256Bytes == 0 ? elements + kLine : elements;
}

/** Returns the most rows of a block of lines whose positions are those of rows of `width`. */
int block_rows(std::int64_t width) {
  constexpr std::int64_t kTile = 16, kLeast = 12;
  for (std::int64_t rows = kTile; rows >= kLeast; --rows)
    if (width % rows == 0) return static_cast<int>(2 * rows);
  return 2 * kTile;
}

/** Returns whether copying the windows of positions saves steps of lines: with few channels, most
 * of a line's terms would be zeros. */
bool windows_pay(const ConvGeometry& g, const ConvChannels& channels) {
  if (channels.terms <= 2) return false;
  const std::int64_t lines = ceil_div(channels.in * g.taps(), channels.terms);
  return 4 * channels.in_steps() * g.taps() > 5 * lines;
}

ConvPlan window_plan(const ConvGeometry& g, const ConvChannels& channels) {
  const ConvChannels terms{channels.in * g.taps(), channels.out, channels.terms};
  ConvPlan plan{.groups = g.groups, .channels = terms, .window = g};
  plan.layout.size = g.out;
  plan.layout.set_format(MemoryFormat::channels_last, plan.pixel_elements());
  plan.weight = {.group = terms.in * terms.out, .out_channel = terms.in, .in_channel = 1, .tap = 0};
  Pass pass;
  pass.rows = position_offsets(plan.layout, g.out, {1, 1, 1});
  pass.steps = in_each_channel(plan.layout, terms.in_steps(), {0});
  pass.taps = {0};
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
  std::vector<std::int64_t> offsets;
  for (std::size_t i = 0; i < z.taps.size(); ++i)
    for (std::size_t j = 0; j < y.taps.size(); ++j)
      for (std::size_t k = 0; k < x.taps.size(); ++k) {
        offsets.push_back(layout.offset(z.source[i] + layout.before[0],
                                        y.source[j] + layout.before[1],
                                        x.source[k] + layout.before[2]));
        pass.taps.push_back(((z.taps[i] * g.kernel[1] + y.taps[j]) * g.kernel[2] + x.taps[k]) *
                            plan.weight.tap);
      }
  pass.steps = in_each_channel(layout, plan.channels.in_steps(), offsets);
  const bool is_even = layout.size[2] == x.count && layout.size[1] == y.count;
  if (!is_even) pass.block_rows = block_rows(x.count);
  const bool all_in_order = g.stride == Extent{1, 1, 1};
  if (all_in_order) pass.places.clear();
  return pass;
}

}  // namespace

ConvPlan direct_plan(const ConvGeometry& g, const ConvChannels& channels, MemoryFormat images,
                     MemoryFormat weight) {
  if (windows_pay(g, channels)) return window_plan(g, channels);
  ConvPlan plan{.groups = g.groups, .channels = channels};
  plan.layout.before = g.pad;
  bool fits = g.pad == Extent{0, 0, 0};
  for (std::size_t d = 0; d < 3; ++d) {
    plan.layout.size[d] = (g.out[d] - 1) * g.stride[d] + (g.kernel[d] - 1) * g.dilation[d] + 1;
    fits = fits && plan.layout.size[d] <= g.in[d];
  }
  if (fits) plan.layout.size = g.in;  // then the images may be read in place
  plan.layout.set_format(images, pixel_step(plan, g.taps()));
  plan.weight = weight_steps(channels.out, channels.in, g.taps(), weight, true);
  Pass pass;
  pass.rows = position_offsets(plan.layout, g.out, g.stride);
  pass.steps = in_each_channel(plan.layout, channels.in_steps(),
                               position_offsets(plan.layout, g.kernel, g.dilation));
  for (std::int64_t tap = 0; tap < g.taps(); ++tap) pass.taps.push_back(tap * plan.weight.tap);
  const bool is_even = g.stride == Extent{1, 1, 1} && plan.layout.size[2] == g.out[2];
  if (!is_even) pass.block_rows = block_rows(g.out[2]);
  plan.passes.push_back(std::move(pass));
  return plan;
}

ConvPlan transposed_plan(const ConvGeometry& g, const ConvChannels& channels, MemoryFormat images,
                         MemoryFormat weight) {
  ConvPlan plan{.groups = g.groups, .channels = channels};
  plan.weight = weight_steps(channels.in, channels.out, g.taps(), weight, false);
  std::array<std::vector<Phase>, 3> phases;
  for (std::size_t d = 0; d < 3; ++d) {
    phases[d] = phases_of(g.in[d], g.kernel[d], g.stride[d], g.dilation[d], g.pad[d]);
    pad_for(phases[d], g.out[d], plan.layout.before[d], plan.layout.size[d]);
  }
  plan.layout.set_format(images, pixel_step(plan, g.taps()));
  for (const Phase& z : phases[0])
    for (const Phase& y : phases[1])
      for (const Phase& x : phases[2]) plan.passes.push_back(transposed_pass(plan, g, z, y, x));
  return plan;
}

}  // namespace mezzo::cpu_kernels
