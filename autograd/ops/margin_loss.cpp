#include "margin_loss.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/margin_loss.h"

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
