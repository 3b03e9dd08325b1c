// Kernels of cross entropy with class indices: one pass over each line of scores, forward and
// backward.
//
// With e the label smoothing, w the class weights and logp = x - max - log(sum of exp(x - max)),
// the loss of a line is
//   -(1 - e) w_y logp_y - (e / C) sum_c w_c logp_c.
// Its gradient is p_c a - q_c, where p = softmax(x), q_c = (1 - e) w_y [c = y] + (e / C) w_c, and a
// = sum of q.
#include "cross_entropy.h"

#include "../../core/dispatch.h"
#include "../../cpu/line_map.h"
#include "../elementwise/loss_terms.h"
#include "../index/classes_cpu.h"
#include "../norm/softmax_line_cpu.h"
#include "../shape/copy.h"

namespace mezzo {

namespace {

using namespace cpu_kernels;

/** Calls f(line, x, y) for each line of scores. x points to its n contiguous values, and y to a
 *  buffer of n values, which is then written to `results` if given. Lines are numbered like the
 *  targets. */
template <class C, class F> void visit_lines(const Tensor& scores, const Tensor* results, F&& f) {
  const LineShape s(scores.shape(), op::class_dim(scores.shape()));
  const BlockReader<C> reader(scores);
  const BlockWriter<C> writer(results ? *results : scores);
  const std::int64_t n = s.length, tile = s.inner == 1 ? 1 : std::min(kLineTile, s.inner);
  if (s.count() == 0) return;
  const std::int64_t tiles_across = (s.inner + tile - 1) / tile;

  const auto run_rows = [&](std::int64_t begin, std::int64_t end) {
    Scratch<C> scratch(reader.direct() && writer.direct() ? 0 : 2 * n);
    for (std::int64_t line = begin; line < end; ++line) {
      const C* x = reader.read(line * n, n, scratch.data());
      C* y = results ? writer.target(line * n, scratch.data() + n) : nullptr;
      f(line, x, y);
      if (results) writer.write(line * n, n, y);
    }
  };
  const auto run_tiles = [&](std::int64_t begin, std::int64_t end) {
    Scratch<C> scratch(2 * n * tile);
    C *x = scratch.data(), *y = x + n * tile;
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t outer = t / tiles_across, column = t % tiles_across * tile;
      const std::int64_t width = std::min(tile, s.inner - column);
      cpu_kernels::detail::gather_lines(reader, s, outer, column, width, x);
      for (std::int64_t i = 0; i < width; ++i)
        f(outer * s.inner + column + i, x + i * n, y + i * n);
      if (results) cpu_kernels::detail::scatter_lines(y, s, outer, column, width, writer);
    }
  };
  const std::int64_t per_panel =
      std::max<std::int64_t>(1, kLinePanel / std::max<std::int64_t>(1, n * tile));
  const double task_ns = static_cast<double>(n * tile);
  if (s.inner == 1)
    parallel_chunks(s.outer, per_panel, run_rows, task_ns);
  else
    parallel_chunks(s.outer * tiles_across, per_panel, run_tiles, task_ns);
}

/** Returns the sum of w_c (max - x_c), whose terms do not cancel. */
template <class C> C weighted_distance(const C* x, const C* weights, C max, std::int64_t n) {
  constexpr std::int64_t kPiece = 1024;
  alignas(64) C piece[kPiece];
  C total = 0;
  for (std::int64_t begin = 0; begin < n; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, n - begin);
    for (std::int64_t i = 0; i < count; ++i) piece[i] = max - x[begin + i];
    if (weights)
      for (std::int64_t i = 0; i < count; ++i)
        piece[i] = op::detail::weighted(weights[begin + i], piece[i]);
    total += line_sum(piece, count);
  }
  return total;
}

/** The smoothing factors of a loss. */
template <class C> struct Smoothing {
  C keep, spread;      // 1 - e, e / C
  C total_weight = 0;  // of all classes
  Smoothing(double e, const ClassTargets<C>& targets)
      : keep(static_cast<C>(1 - e)),
        spread(static_cast<C>(e / static_cast<double>(targets.classes()))) {
    const std::int64_t n = targets.classes();
    if (e > 0)
      total_weight = targets.weights() ? line_sum(targets.weights(), n) : static_cast<C>(n);
    if (e == 0) spread = 0;
  }
};

template <class C> void forward(Inputs in, Outputs out, const op::CrossEntropyAttrs& attrs) {
  const Tensor x = row_major(op::late_source(in[0]));
  const ClassTargets<C> targets("cross_entropy", in[1], in[2], x.shape()[op::class_dim(x.shape())],
                                attrs.ignore_index);
  const Smoothing<C> smoothing(attrs.label_smoothing, targets);
  const std::int64_t n = targets.classes();
  Scratch<C> losses(targets.lines());
  C* loss = losses.data();
  C* stats = out[1].template data<C>();
  visit_lines<C>(x, nullptr, [&](std::int64_t line, const C* v, C*) {
    if (targets.ignored(line)) {
      loss[line] = stats[2 * line] = stats[2 * line + 1] = 0;
      return;
    }
    const C max = line_max(v, n), sum = line_exp_sum(v, max, n), log_sum = math::log(sum);
    stats[2 * line] = max;
    stats[2 * line + 1] = sum;
    loss[line] = op::detail::weighted(smoothing.keep * targets.weight_of(line),
                                      log_sum + (max - v[targets.at(line)]));
    if (smoothing.spread > 0)
      loss[line] += smoothing.spread * (smoothing.total_weight * log_sum +
                                        weighted_distance(v, targets.weights(), max, n));
  });
  const bool mean = attrs.reduction == Reduction::mean;
  const C divisor = mean ? targets.total_weight() : C(1);
  *out[2].template data<C>() = divisor;
  const BlockWriter<C> writer(out[0]);
  if (attrs.reduction == Reduction::none) return writer.copy(0, targets.lines(), loss);
  const C total = line_sum(loss, targets.lines()) / divisor;
  writer.copy(0, 1, &total);
}

template <class C> void backward(Inputs in, Outputs out, const op::CrossEntropyAttrs& attrs) {
  const Tensor x = row_major(op::late_source(in[1]));
  const ClassTargets<C> targets("cross_entropy", in[2], in[3], x.shape()[op::class_dim(x.shape())],
                                attrs.ignore_index);
  const Smoothing<C> smoothing(attrs.label_smoothing, targets);
  const std::int64_t n = targets.classes();
  const CastScope no_casts(nullptr);
  const Tensor incoming = row_major(in[0].detach().to(dtype_of<C>()));
  const C* g = incoming.template data<C>();
  const bool one_g = attrs.reduction != Reduction::none;
  const C* stats = in[4].template data<C>();
  const C divisor = *in[5].template data<C>();
  const C* w = targets.weights();
  visit_lines<C>(x, &out[0], [&](std::int64_t line, const C* v, C* gx) {
    if (targets.ignored(line)) {
      std::fill(gx, gx + n, C(0));
      return;
    }
    const C scale = (one_g ? g[0] : g[line]) / divisor, max = stats[2 * line];
    const C on_target = smoothing.keep * targets.weight_of(line);
    const C all =
        (on_target + smoothing.spread * smoothing.total_weight) * scale / stats[2 * line + 1];
    for (std::int64_t i = 0; i < n; ++i) gx[i] = math::exp(v[i] - max) * all;
    if (smoothing.spread > 0)
      for (std::int64_t i = 0; i < n; ++i) gx[i] -= smoothing.spread * scale * (w ? w[i] : C(1));
    gx[targets.at(line)] -= on_target * scale;
  });
}

}  // namespace

namespace op {

void CrossEntropyIndices::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  visit_floating_compute(in[0].dtype(),
                         [&]<class C>(std::type_identity<C>) { forward<C>(in, out, attrs); });
}

void LateCrossEntropy::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor operands[] = {in[0], in[1], {}};
  CrossEntropyResults results(operands, attrs, out[0]);
  CrossEntropyIndices::cpu(operands, results.of, attrs);
}

void CrossEntropyBackward::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (!in[4].defined()) {
    CrossEntropyResults results(in.subspan(1, 3), attrs, in[6]);
    CrossEntropyIndices::cpu(in.subspan(1, 3), results.of, attrs);
    const Tensor operands[] = {in[0], in[1], in[2], in[3], results.of[1], results.of[2], {}};
    return cpu(operands, out, attrs);
  }
  visit_floating_compute(in[1].dtype(),
                         [&]<class C>(std::type_identity<C>) { backward<C>(in, out, attrs); });
}

}  // namespace op

}  // namespace mezzo
