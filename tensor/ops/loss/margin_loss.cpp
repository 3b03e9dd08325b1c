// Gradients and public functions of the ops in margin_loss.h.
#include "margin_loss.h"

#include <cmath>
#include <limits>

#include "../../core/dispatch.h"
#include "../../core/elementwise_info.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../create.h"
#include "../elementwise/loss_terms.h"
#include "../elementwise/operators.h"
#include "../index/classes.h"
#include "../index/gather.h"
#include "../norm/line_scale.h"
#include "../reduce/reduce.h"
#include "../wide.h"
#include "cross_entropy.h"
#include "loss_support.h"

namespace mezzo::op {

namespace {

/** Returns the distances of the vectors along the last dimension. eps keeps the derivative finite
 *  where u and v are equal. */
Tensor distance(const Tensor& u, const Tensor& v, double p, double eps) {
  Tensor d = u - v + eps;
  if (p == 1) return sum(abs(d), -1);
  if (std::isinf(p)) return amax(abs(d), -1);
  // Scaled, so that the powers of huge or tiny differences stay in range.
  const Tensor scale = line_scale(d, 1u << (d.dim() - 1));
  d = scaled(d, scale);
  const Tensor length =
      p == 2 ? sqrt(sum(d * d, -1, {.keepdim = true}))
             : pow(sum(pow(abs(d), operand(p)), -1, {.keepdim = true}), operand(1 / p));
  return unscaled(length, scale).squeeze(-1);
}

}  // namespace

std::vector<Tensor> CosineEmbeddingLoss::composite(Inputs in, const Attrs& attrs) {
  require_plain_reduction(traits.name, attrs.reduction);
  for (int i = 0; i < 2; ++i) require_floating(traits.name, in[static_cast<std::size_t>(i)]);
  const Tensor &x1 = in[0], &x2 = in[1], &target = in[2];
  const bool fits = target.defined() && (x1.dim() == 1 || x1.dim() == 2) &&
                    x1.shape() == x2.shape() && target.dim() == x1.dim() - 1 &&
                    (x1.dim() == 1 || target.shape()[0] == x1.shape()[0]);
  if (!fits)
    fail<ShapeError>(traits.name,
                     {.what = "operands do not fit each other",
                      .got = str(in.first(3)),
                      .expected = "[n,d], [n,d] and target [n], or [d], [d] and target []"});
  // Scaled, so that products of huge or tiny numbers stay in range.
  const std::uint32_t last = 1u << (x1.dim() - 1);
  constexpr double kEps = 1e-12;
  const Tensor a_scale = at_most_for(line_scale(wide(x1), last), kEps),
               b_scale = at_most_for(line_scale(wide(x2), last), kEps);
  const Tensor a = scaled(wide(x1), a_scale), b = scaled(wide(x2), b_scale);
  const auto square = [](const Tensor& x, const Tensor& scale) {
    return sum(x * x, -1) + kEps * (scale * scale).squeeze(-1);
  };
  const Tensor cosine = sum(a * b, -1) / sqrt(square(a, a_scale) * square(b, b_scale));
  const Tensor apart = where(target == -1, relu(cosine - attrs.parameter), operand(0));
  return {reduce_terms(where(target == 1, 1 - cosine, apart), attrs.reduction,
                       promoted_dtype(in.first(2)))};
}

std::vector<Tensor> HingeEmbeddingLoss::composite(Inputs in, const Attrs& attrs) {
  const Tensor terms =
      terms_of<HingeEmbeddingTerm>(traits.name, in, attrs.reduction, {attrs.parameter});
  return {reduce_terms(terms, attrs.reduction, promoted_dtype(in.first(2)))};
}

std::vector<Tensor> MarginRankingLoss::composite(Inputs in, const Attrs& attrs) {
  require_plain_reduction(traits.name, attrs.reduction);
  require_comparable(traits.name, in[0], in[1]);
  const Shape shape = broadcast_shapes(in[0].shape(), in[1].shape(), traits.name.data());
  require_floating(traits.name, in[2]);
  broadcast_shapes(shape, in[2].shape(), traits.name.data());
  const Tensor terms =
      apply_with<MarginRankingTerm>({attrs.parameter}, wide(in[0]), wide(in[1]), wide(in[2]));
  return {reduce_terms(terms, attrs.reduction, promoted_dtype(in))};
}

std::vector<Tensor> MultiMarginLoss::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &target = in[1];
  require_plain_reduction(traits.name, attrs.reduction);
  if (attrs.p != 1 && attrs.p != 2)
    fail<ValueError>(traits.name,
                     {.what = "p out of range", .got = str(attrs.p), .expected = "1 or 2"});
  require_classes(traits.name, x, target, in[2]);
  if (x.dim() > 2)
    fail<ShapeError>(
        traits.name,
        {.what = "too many dimensions", .got = str(x), .expected = "scores (C) or (N,C)"});
  const int dim = class_dim(x.shape());
  const std::int64_t classes = x.shape()[dim];
  constexpr std::int64_t kIgnoreNone = std::numeric_limits<std::int64_t>::min();
  const auto [index, weight] = apply_all<ClassWeights>(
      {traits.name, classes, kIgnoreNone, compute_dtype(x.dtype())}, target, in[2]);
  const Tensor wide_x = wide(x), at_target = index.unsqueeze(dim);
  const Tensor excess = relu(wide_x - gather(wide_x, dim, at_target) + attrs.margin);
  const Tensor numbers =
      arange(static_cast<double>(classes), {.dtype = DType::i64, .device = x.device()});
  // Samples of weight 0 count for nothing, even if their terms are infinite.
  Tensor counts = at_target != numbers;
  if (in[2].defined()) counts = logical_and(counts, weight.unsqueeze(dim) != 0);
  const Tensor others = where(counts, excess, operand(0));
  const Tensor terms = sum(attrs.p == 1 ? others : others * others, dim) / classes * weight;
  return {reduce_terms(terms, attrs.reduction, x.dtype())};
}

std::vector<Tensor> MultilabelMarginLoss::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &target = in[1];
  require_plain_reduction(traits.name, attrs.reduction);
  require_floating(traits.name, x);
  require_index_dtype(traits.name, target);
  if ((x.dim() != 1 && x.dim() != 2) || !(target.shape() == x.shape()))
    fail<ShapeError>(traits.name, {.what = "the target does not fit the scores",
                                   .got = str(in.first(2)),
                                   .expected = "one shape, (C) or (N,C)"});
  const Tensor named = apply_with<NamedClasses>({traits.name}, target);
  const Tensor scores = wide(x);
  // Each pair of a target class (second to last dimension) and another class (last dimension).
  const Tensor excess = relu(1 - (scores.unsqueeze(-1) - scores.unsqueeze(-2)));
  const Tensor counts = logical_and(named.unsqueeze(-1), logical_not(named).unsqueeze(-2));
  const Tensor terms = sum(where(counts, excess, operand(0)), {-2, -1}) / x.shape().back();
  return {reduce_terms(terms, attrs.reduction, x.dtype())};
}

std::vector<Tensor> MultilabelSoftMarginLoss::composite(Inputs in, const Attrs& attrs) {
  Tensor terms = terms_of<LogitCrossEntropy>(traits.name, in, attrs.reduction);
  if (terms.dim() == 0)
    fail<ShapeError>(traits.name, {.what = "scores without a dimension of labels",
                                   .got = str(in.first(2)),
                                   .expected = "x (..,C)"});
  terms = mean(times_weight(traits.name, terms, in[2]), -1);
  return {reduce_terms(terms, attrs.reduction, promoted_dtype(in.first(2)))};
}

std::vector<Tensor> PoissonNllLoss::composite(Inputs in, const Attrs& attrs) {
  require_comparable(traits.name, in[0], in[1]);
  // One conversion for both terms, so that the gradient of the target is rounded once.
  const Tensor operands[] = {wide(in[0]), wide(in[1])};
  Tensor terms = attrs.log_input
                     ? terms_of<PoissonLogTerm>(traits.name, operands, attrs.reduction)
                     : terms_of<PoissonTerm>(traits.name, operands, attrs.reduction, {attrs.eps});
  if (attrs.full) terms = terms + apply<StirlingTerm>(operands[1]);
  return {reduce_terms(terms, attrs.reduction, promoted_dtype(in.first(2)))};
}

std::vector<Tensor> SoftMarginLoss::composite(Inputs in, const Attrs& attrs) {
  const Tensor terms = terms_of<SoftMarginTerm>(traits.name, in, attrs.reduction);
  return {reduce_terms(terms, attrs.reduction, promoted_dtype(in.first(2)))};
}

std::vector<Tensor> TripletMarginLoss::composite(Inputs in, const Attrs& attrs) {
  require_plain_reduction(traits.name, attrs.reduction);
  if (!(attrs.p > 0))
    fail<ValueError>(traits.name,
                     {.what = "p out of range", .got = str(attrs.p), .expected = "p > 0"});
  require_comparable(traits.name, in[0], in[1]);
  require_comparable(traits.name, in[0], in[2]);
  require_comparable(traits.name, in[1], in[2]);
  if (in[0].dim() == 0 || in[1].dim() == 0 || in[2].dim() == 0)
    fail<ShapeError>(traits.name,
                     {.what = "an operand is 0-dim", .got = str(in), .expected = "(..,D) each"});
  const Tensor anchor = wide(in[0]), positive = wide(in[1]), negative = wide(in[2]);
  const Tensor near = distance(anchor, positive, attrs.p, attrs.eps);
  Tensor far = distance(anchor, negative, attrs.p, attrs.eps);
  if (attrs.swap) far = minimum(far, distance(positive, negative, attrs.p, attrs.eps));
  return {reduce_terms(relu(near - far + attrs.margin), attrs.reduction, promoted_dtype(in))};
}

std::span<OpInfo* const> margin_loss_ops() { return infos_of(MarginLossOps{}); }

}  // namespace mezzo::op

namespace mezzo {

Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                             const CosineEmbeddingLossOptions& options) {
  return apply_with<op::CosineEmbeddingLoss>({options.margin, options.reduction}, x1, x2, target);
}

Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target,
                            const HingeEmbeddingLossOptions& options) {
  return apply_with<op::HingeEmbeddingLoss>({options.margin, options.reduction}, x, target);
}

Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                           const MarginRankingLossOptions& options) {
  return apply_with<op::MarginRankingLoss>({options.margin, options.reduction}, x1, x2, target);
}

Tensor multi_margin_loss(const Tensor& x, const Tensor& target,
                         const MultiMarginLossOptions& options) {
  return apply_with<op::MultiMarginLoss>({options.p, options.margin, options.reduction}, x, target,
                                         options.weight);
}

Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target,
                              const MultilabelMarginLossOptions& options) {
  return apply_with<op::MultilabelMarginLoss>({options.reduction}, x, target);
}

Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target,
                                   const MultilabelSoftMarginLossOptions& options) {
  return apply_with<op::MultilabelSoftMarginLoss>({options.reduction}, x, target, options.weight);
}

Tensor poisson_nll_loss(const Tensor& x, const Tensor& target,
                        const PoissonNllLossOptions& options) {
  return apply_with<op::PoissonNllLoss>(
      {options.log_input, options.full, options.eps, options.reduction}, x, target);
}

Tensor soft_margin_loss(const Tensor& x, const Tensor& target,
                        const SoftMarginLossOptions& options) {
  return apply_with<op::SoftMarginLoss>({options.reduction}, x, target);
}

Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options) {
  return apply_with<op::TripletMarginLoss>(
      {options.margin, options.p, options.eps, options.swap, options.reduction}, anchor, positive,
      negative);
}

}  // namespace mezzo
