#include "loss.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/cross_entropy.h"
#include "../../tensor/ops/loss.h"

namespace mezzo {

Tensor cross_entropy(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options) {
  return apply_with<op::CrossEntropy>(
      {options.ignore_index, options.label_smoothing, options.reduction}, x, target,
      options.weight);
}

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
