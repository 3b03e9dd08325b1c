// Golden calls: loss functions.
#include "golden.h"

namespace {

using namespace golden;
using namespace mezzo;

void add_class_losses() {
  GOLDEN_REDUCTIONS("cross_entropy", cross_entropy(x[0], x[1], {.reduction = reduction}));
  GOLDEN_REDUCTIONS(
      "cross_entropy/weighted",
      cross_entropy(
          x[0], x[1],
          {.weight = x[2], .ignore_index = 1, .reduction = reduction, .label_smoothing = 0.2}));
  GOLDEN_REDUCTIONS(
      "cross_entropy/probabilities",
      cross_entropy(x[0], x[1], {.weight = x[2], .reduction = reduction, .label_smoothing = 0.1}));
  GOLDEN("cross_entropy/one sample", cross_entropy(x[0], x[1]));
  GOLDEN_REDUCTIONS("nll_loss", nll_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN_REDUCTIONS(
      "nll_loss/weighted",
      nll_loss(x[0], x[1], {.weight = x[2], .ignore_index = 0, .reduction = reduction}));
  GOLDEN_REDUCTIONS("multi_margin_loss", multi_margin_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN("multi_margin_loss/options",
         multi_margin_loss(x[0], x[1], {.p = 2, .margin = 0.5, .weight = x[2]}));
  GOLDEN_REDUCTIONS("multilabel_margin_loss",
                    multilabel_margin_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN_REDUCTIONS("multilabel_soft_margin_loss",
                    multilabel_soft_margin_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN("multilabel_soft_margin_loss/weight",
         multilabel_soft_margin_loss(x[0], x[1], {.weight = x[2]}));
}

void add_elementwise_losses() {
  GOLDEN_REDUCTIONS("mse_loss", mse_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN_REDUCTIONS("l1_loss", l1_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN_REDUCTIONS("smooth_l1_loss", smooth_l1_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN("smooth_l1_loss/beta", smooth_l1_loss(x[0], x[1], {.beta = 0.3}));
  GOLDEN_REDUCTIONS("huber_loss", huber_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN("huber_loss/delta", huber_loss(x[0], x[1], {.delta = 0.3}));
  GOLDEN_REDUCTIONS("binary_cross_entropy",
                    binary_cross_entropy(x[0], x[1], {.reduction = reduction}));
  GOLDEN("binary_cross_entropy/weight", binary_cross_entropy(x[0], x[1], {.weight = x[2]}));
  GOLDEN("binary_cross_entropy/ends", binary_cross_entropy(x[0], x[1]));
  GOLDEN_REDUCTIONS("binary_cross_entropy_with_logits",
                    binary_cross_entropy_with_logits(x[0], x[1], {.reduction = reduction}));
  GOLDEN("binary_cross_entropy_with_logits/weights",
         binary_cross_entropy_with_logits(x[0], x[1], {.weight = x[2], .pos_weight = x[3]}));
  GOLDEN_REDUCTIONS("kl_div", kl_div(x[0], x[1], {.reduction = reduction}));
  GOLDEN("kl_div/log target",
         kl_div(x[0], x[1], {.reduction = Reduction::batchmean, .log_target = true}));
  GOLDEN_REDUCTIONS("poisson_nll_loss", poisson_nll_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN("poisson_nll_loss/full, rates",
         poisson_nll_loss(x[0], x[1], {.log_input = false, .full = true, .eps = 1e-3}));
}

void add_margin_losses() {
  GOLDEN_REDUCTIONS("hinge_embedding_loss",
                    hinge_embedding_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN("hinge_embedding_loss/margin", hinge_embedding_loss(x[0], x[1], {.margin = 0.4}));
  GOLDEN_REDUCTIONS("soft_margin_loss", soft_margin_loss(x[0], x[1], {.reduction = reduction}));
  GOLDEN_REDUCTIONS("margin_ranking_loss",
                    margin_ranking_loss(x[0], x[1], x[2], {.margin = 0.3, .reduction = reduction}));
  GOLDEN_REDUCTIONS(
      "cosine_embedding_loss",
      cosine_embedding_loss(x[0], x[1], x[2], {.margin = 0.1, .reduction = reduction}));
  GOLDEN_REDUCTIONS("triplet_margin_loss",
                    triplet_margin_loss(x[0], x[1], x[2], {.reduction = reduction}));
  GOLDEN("triplet_margin_loss/options",
         triplet_margin_loss(x[0], x[1], x[2], {.margin = 0.5, .p = 1, .swap = true}));
}

const Registrar additions([] {
  add_class_losses();
  add_elementwise_losses();
  add_margin_losses();
});

}  // namespace
