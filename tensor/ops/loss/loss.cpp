// Shape rules, gradients and public functions of the ops in loss.h.
#include "loss.h"

#include "../../core/dispatch.h"
#include "../../core/elementwise_info.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/loss_terms.h"
#include "../elementwise/operators.h"
#include "../index/classes.h"
#include "../index/gather.h"
#include "../reduce/reduce.h"
#include "../wide.h"
#include "cross_entropy.h"
#include "loss_support.h"

namespace mezzo::op {

void require_plain_reduction(std::string_view op, Reduction reduction) {
  if (reduction == Reduction::batchmean)
    fail<ValueError>(op, {.what = "the reduction is not supported by this loss",
                          .got = "batchmean",
                          .expected = "none, sum or mean"});
}

std::span<OpInfo* const> loss_ops() { return infos_of(LossOps{}); }

// The composites of the elementwise losses and of nll_loss. Inner ops compute in f32 (f64), so that
// there is one rounding, at the end.

namespace {

template <class Term>
std::vector<Tensor> two_operand_loss(std::string_view op, Inputs in, Reduction reduction,
                                     const AttrsOf<Term>& attrs = {}) {
  return {reduce_terms(terms_of<Term>(op, in, reduction, attrs), reduction,
                       promoted_dtype(in.first(2)))};
}

/** Throws ValueError naming the first element outside 0..1. nan is allowed, because it
 *  propagates. */
void require_probabilities(const Tensor& x) {
  const NoGrad no_grad;
  const bool outside = any(x < 0).item<bool>() || any(x > 1).item<bool>();
  if (!outside) return;
  const std::vector<double> values = x.to_vector<double>();
  std::size_t first = 0;
  while (!(values[first] < 0 || values[first] > 1)) ++first;
  fail<ValueError>(
      BinaryCrossEntropy::traits.name,
      {.what = "x must hold probabilities",
       .got = str(values[first], " at element ", static_cast<std::int64_t>(first), " of ", str(x)),
       .expected = "0..1",
       .hint = "use binary_cross_entropy_with_logits for scores"});
}

}  // namespace

std::vector<Tensor> BinaryCrossEntropy::composite(Inputs in, const Attrs& attrs) {
  require_floating(traits.name, in[0]);
  require_probabilities(in[0]);
  const Tensor terms = terms_of<ProbabilityCrossEntropy>(traits.name, in, attrs.reduction);
  return {reduce_terms(times_weight(traits.name, terms, in[2]), attrs.reduction,
                       promoted_dtype(in.first(2)))};
}

std::vector<Tensor> BinaryCrossEntropyWithLogits::composite(Inputs in, const Attrs& attrs) {
  Tensor terms;
  if (in[3].defined()) {
    require_plain_reduction(traits.name, attrs.reduction);
    require_comparable(traits.name, in[0], in[1]);
    const Shape shape = broadcast_shapes(in[0].shape(), in[1].shape(), traits.name.data());
    require_weight_fits(traits.name, "pos_weight", in[3], shape);
    terms = apply<WeightedLogitCrossEntropy>(wide(in[0]), wide(in[1]), wide(in[3].detach()));
  } else {
    terms = terms_of<LogitCrossEntropy>(traits.name, in, attrs.reduction);
  }
  return {reduce_terms(times_weight(traits.name, terms, in[2]), attrs.reduction,
                       promoted_dtype(in.first(2)))};
}

std::vector<Tensor> HuberLoss::composite(Inputs in, const Attrs& attrs) {
  if (!(attrs.parameter > 0))
    fail<ValueError>(
        traits.name,
        {.what = "delta out of range", .got = str(attrs.parameter), .expected = "delta > 0"});
  return two_operand_loss<HuberError>(traits.name, in, attrs.reduction, {attrs.parameter});
}

std::vector<Tensor> KlDiv::composite(Inputs in, const Attrs& attrs) {
  const bool by_batch = attrs.reduction == Reduction::batchmean;
  if (by_batch && in[0].dim() == 0)
    fail<ShapeError>(traits.name,
                     {.what = "batchmean needs a dimension of samples", .got = str(in[0])});
  const Reduction plain = by_batch ? Reduction::sum : attrs.reduction;
  const Tensor terms = attrs.log_target ? terms_of<KlLogTerm>(traits.name, in, plain)
                                        : terms_of<KlTerm>(traits.name, in, plain);
  return {reduce_terms(terms, attrs.reduction, promoted_dtype(in.first(2)))};
}

std::vector<Tensor> L1Loss::composite(Inputs in, const Attrs& attrs) {
  return two_operand_loss<AbsoluteError>(traits.name, in, attrs.reduction);
}

std::vector<Tensor> MseLoss::composite(Inputs in, const Attrs& attrs) {
  return two_operand_loss<SquaredError>(traits.name, in, attrs.reduction);
}

std::vector<Tensor> NllLoss::composite(Inputs in, const Attrs& attrs) {
  const Tensor &x = in[0], &target = in[1];
  require_plain_reduction(traits.name, attrs.reduction);
  require_classes(traits.name, x, target, in[2]);
  const int dim = class_dim(x.shape());
  const auto [index, weight] = apply_all<ClassWeights>(
      {traits.name, x.shape()[dim], attrs.ignore_index, compute_dtype(x.dtype())}, target, in[2]);
  const Tensor picked = wide(gather(x, dim, index.unsqueeze(dim)).squeeze(dim));
  // A weight of 0 alone would not do: values of ignored samples may be nan.
  const Tensor terms =
      where(target != attrs.ignore_index, apply<WeightedTerm>(-picked, weight), operand(0));
  if (attrs.reduction == Reduction::mean) return {(sum(terms) / sum(weight)).to(x.dtype())};
  return {reduce_terms(terms, attrs.reduction, x.dtype())};
}

std::vector<Tensor> SmoothL1Loss::composite(Inputs in, const Attrs& attrs) {
  if (!(attrs.parameter >= 0))
    fail<ValueError>(
        traits.name,
        {.what = "beta out of range", .got = str(attrs.parameter), .expected = "beta >= 0"});
  if (attrs.parameter == 0)
    return two_operand_loss<AbsoluteError>(traits.name, in, attrs.reduction);
  return two_operand_loss<SmoothAbsoluteError>(traits.name, in, attrs.reduction, {attrs.parameter});
}

}  // namespace mezzo::op

namespace mezzo {

Tensor binary_cross_entropy(const Tensor& x, const Tensor& target,
                            const BinaryCrossEntropyOptions& options) {
  return apply_with<op::BinaryCrossEntropy>({options.reduction}, x, target, options.weight);
}

Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                        const BinaryCrossEntropyWithLogitsOptions& options) {
  return apply_with<op::BinaryCrossEntropyWithLogits>({options.reduction}, x, target,
                                                      options.weight, options.pos_weight);
}

Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberLossOptions& options) {
  return apply_with<op::HuberLoss>({options.delta, options.reduction}, x, target);
}

Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& options) {
  return apply_with<op::KlDiv>({options.log_target, options.reduction}, x, target);
}

Tensor l1_loss(const Tensor& x, const Tensor& target, const LossOptions& options) {
  return apply_with<op::L1Loss>({options.reduction}, x, target);
}

Tensor mse_loss(const Tensor& x, const Tensor& target, const LossOptions& options) {
  return apply_with<op::MseLoss>({options.reduction}, x, target);
}

Tensor nll_loss(const Tensor& x, const Tensor& target, const NllLossOptions& options) {
  return apply_with<op::NllLoss>({options.ignore_index, options.reduction}, x, target,
                                 options.weight);
}

Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, const SmoothL1LossOptions& options) {
  return apply_with<op::SmoothL1Loss>({options.beta, options.reduction}, x, target);
}

}  // namespace mezzo
