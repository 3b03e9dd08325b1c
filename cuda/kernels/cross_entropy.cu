// The CUDA kernels of cross entropy with class indices; ../../tensor/cpu/cross_entropy.cpp has the formulas.
#include "../../tensor/ops/cross_entropy.h"

#include <limits>

#include "../../tensor/cpu/softmax_line.h"
#include "../attach.h"
#include "../deferred.h"
#include "lines.h"
#include "row.h"

namespace mezzo::gpu {

namespace {

using cpu_kernels::Greater;
using cpu_kernels::lowest;
using cpu_kernels::Plus;
using cpu_kernels::shifted_exp;

/** So many blocks' lines are sooner done by one of them than a second kernel is launched. */
constexpr std::int64_t kFewBlocks = 16;

/** The operands that forward and backward share. Lines are those along the classes and count as the targets do. */
struct Scores {
  Lines lines;
  Array x, target, weight;
  std::int64_t ignore_index;
  double keep, spread;  // 1 - e, e / C for the label smoothing e
  DeferredWord* bad;

  __device__ bool counts(std::int64_t t) const { return t != ignore_index; }
  __device__ bool in_range(std::int64_t t) const { return t >= 0 && t < lines.length; }
  template <class C> __device__ C weight_of(std::int64_t c) const {
    return weight.data ? weight.load<C>(c) : C(1);
  }
};

/** Sum of the weights of all classes, which the smoothing alone asks for. */
template <class C> __device__ C total_weight(const Scores& s, const LineWalk& walk, C* room) {
  if (s.spread == 0) return C(0);
  if (!s.weight.data) return static_cast<C>(s.lines.length);
  return walk.fold(room, C(0), Plus{}, [&](std::int64_t, std::int64_t c) { return s.weight_of<C>(c); });
}

/** What the forward pass writes: per line the maximum and the sum of shifted exponentials, the loss and the weight it counts with in the mean; and
 *  what they come to. */
template <class C> struct Results {
  C *stats, *losses, *weights;
  Array loss;
  C* divisor;
  Reduction reduction;
};

/** The lines of one block. */
template <class C>
__device__ void line_losses(const Scores& s, const LineWalk& walk, const Results<C>& out, C* room) {
  const auto value = [&](std::int64_t place, std::int64_t) { return s.x.load<C>(place); };
  const C max = walk.fold(room, lowest<C>(), Greater{}, value);
  const C sum = walk.fold(room, C(0), Plus{}, [&](std::int64_t place, std::int64_t) {
    return shifted_exp(s.x.load<C>(place) - max);
  });
  const C all = total_weight(s, walk, room);
  C distance = 0;
  if (s.spread != 0)
    distance = walk.fold(room, C(0), Plus{}, [&](std::int64_t place, std::int64_t c) {
      return s.weight_of<C>(c) * (max - s.x.load<C>(place));
    });
  if (!walk.is_first()) return;
  const std::int64_t t = s.target.load<std::int64_t>(walk.line);
  const bool counts = s.counts(t);
  out.stats[2 * walk.line] = counts ? max : C(0);
  out.stats[2 * walk.line + 1] = counts ? sum : C(0);
  if (counts && !s.in_range(t)) {
    note_bad(s.bad, walk.line, t);
    out.losses[walk.line] = std::numeric_limits<C>::quiet_NaN();
    out.weights[walk.line] = C(1);
    return;
  }
  const C weight = counts ? s.weight_of<C>(t) : C(0), log_sum = math::log(sum);
  out.weights[walk.line] = weight;
  const C smoothed = static_cast<C>(s.spread) * (all * log_sum + distance);
  out.losses[walk.line] = counts ? static_cast<C>(s.keep) * weight *
                                           (log_sum + (max - s.x.load<C>(walk.base + t * s.lines.inner))) +
                                       (s.spread != 0 ? smoothed : C(0))
                                 : C(0);
}

/** By one block: the losses of all lines, summed and divided by the weights' sum where that is asked for. */
template <class C> __device__ void total_loss(std::int64_t lines, const Results<C>& out, C* room) {
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  const Spread spread{.slots = 1, .parts = threads};
  C total = 0, weight = 0;
  for (std::int64_t i = thread; i < lines; i += threads) {
    total += out.losses[i];
    weight += out.weights[i];
    if (out.reduction == Reduction::none) out.loss.template store<C>(i, out.losses[i]);
  }
  total = joined(spread, {0, thread}, room, total, Plus{});
  weight = joined(spread, {0, thread}, room, weight, Plus{});
  if (thread != 0) return;
  *out.divisor = out.reduction == Reduction::mean ? weight : C(1);
  if (out.reduction != Reduction::none) out.loss.template store<C>(0, total / *out.divisor);
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    line_loss_kernel(const __grid_constant__ Scores s, const Results<C> out) {
  MZ_SHARED(C, room, kSpreadThreads);
  line_losses(s, LineWalk(s.lines), out, room);
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    total_loss_kernel(std::int64_t lines, const Results<C> out) {
  MZ_SHARED(C, room, kSpreadThreads);
  total_loss(lines, out, room);
}

/** Both, of few lines: one block does the work of all. */
template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    few_lines_kernel(const __grid_constant__ Scores s, std::int64_t blocks, const Results<C> out) {
  MZ_SHARED(C, room, kSpreadThreads);
  for (std::int64_t block = 0; block < blocks; ++block) line_losses(s, LineWalk(s.lines, block), out, room);
  __syncthreads();
  total_loss(s.lines.count, out, room);
}

template <class C>
__global__ void __launch_bounds__(kSpreadThreads)
    backward_kernel(const __grid_constant__ Scores s, const Array g, bool one_g, const Array stats,
                    const Array divisor, const Array gx) {
  MZ_SHARED(C, room, kSpreadThreads);
  const LineWalk walk(s.lines);
  const C all = total_weight(s, walk, room);
  if (!walk.has_line) return;
  const std::int64_t t = s.target.load<std::int64_t>(walk.line);
  const bool counts = s.counts(t) && s.in_range(t);
  const C scale = counts ? g.load<C>(one_g ? 0 : walk.line) / divisor.load<C>(0) : C(0);
  const C max = stats.load<C>(2 * walk.line), sum = stats.load<C>(2 * walk.line + 1);
  const C spread = static_cast<C>(s.spread);
  const C on_target = counts ? static_cast<C>(s.keep) * s.weight_of<C>(t) : C(0);
  const C factor = (on_target + spread * all) * scale / sum;
  walk.for_each([&](std::int64_t place, std::int64_t c) {
    C value = 0;
    if (counts) {
      value = math::exp(s.x.load<C>(place) - max) * factor;
      if (s.spread != 0) value -= spread * scale * s.weight_of<C>(c);
      if (c == t) value -= on_target * scale;
    }
    gx.store<C>(place, value);
  });
}

/** The operands as the kernels get them; the tensors hold their memory. */
struct Held {
  Tensor x, target, weight;
  Scores scores;

  Held(const Tensor& scores_tensor, const Tensor& targets, const Tensor& weights,
       const op::CrossEntropyAttrs& attrs)
      : x(row_major(scores_tensor)),
        target(row_major(targets)),
        weight(row_major(weights)),
        scores{
            .lines = lines_along(x.shape(), op::class_dim(x.shape())),
            .x = Array(x),
            .target = Array(target),
            .weight = Array(weight),
            .ignore_index = attrs.ignore_index,
            .keep = 1 - attrs.label_smoothing,
            .spread = attrs.label_smoothing == 0
                          ? 0
                          : attrs.label_smoothing / static_cast<double>(x.shape()[op::class_dim(x.shape())]),
            .bad = nullptr} {}
};

void forward(Inputs in, Outputs out, const op::CrossEntropyAttrs& attrs) {
  Held held(in[0], in[1], in[2], attrs);
  const Device device = in[0].device();
  const std::int64_t count = held.scores.lines.count;
  held.scores.bad =
      watch(device, ClassRange{"cross_entropy", in[1].shape(), held.scores.lines.length, attrs.ignore_index});
  const runtime::Stream stream = current_stream(device);
  visit_floating_compute(in[0].dtype(), [&]<class C>(std::type_identity<C>) {
    const Tensor room = workspace(2 * count * static_cast<std::int64_t>(sizeof(C)), device);
    C* const losses = static_cast<C*>(room.raw_data());
    const Results<C> results{out[1].template data<C>(), losses,         losses + count, Array(out[0]),
                             out[2].template data<C>(), attrs.reduction};
    const Lines& lines = held.scores.lines;
    if (lines.blocks() <= kFewBlocks)
      return launch(&few_lines_kernel<C>, {.blocks = 1, .threads = lines.spread.threads()}, stream,
                    held.scores, lines.blocks(), results);
    launch(&line_loss_kernel<C>, grid_of(lines), stream, held.scores, results);
    launch(&total_loss_kernel<C>, {.blocks = 1, .threads = kSpreadThreads}, stream, count, results);
  });
}

void backward(Inputs in, Outputs out, const op::CrossEntropyBackward::Attrs& attrs) {
  const Held held(in[1], in[2], in[3], attrs);
  const Tensor g = row_major(in[0]);
  visit_floating_compute(in[1].dtype(), [&]<class C>(std::type_identity<C>) {
    launch(&backward_kernel<C>, grid_of(held.scores.lines), current_stream(in[1].device()), held.scores,
           Array(g), attrs.reduction != Reduction::none, Array(in[4]), Array(in[5]), Array(out[0]));
  });
}

}  // namespace

void attach_cross_entropy() {
  attach<op::CrossEntropyBackward, backward>();
  attach<op::CrossEntropyIndices, forward>();
}

}  // namespace mezzo::gpu
