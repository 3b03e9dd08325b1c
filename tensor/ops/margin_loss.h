// The losses with a margin, and poisson_nll_loss. Each public op is a composite.
// See also: tensor/elementwise/loss_terms.h (the formulas).
#pragma once

#include "loss.h"

namespace mezzo::op {

/** Operands: x1, x2 (N,D) or (D), target 1 or -1, (N) or 0-dim. */
struct CosineEmbeddingLoss {
  static constexpr OpTraits traits =
      detail::loss("cosine_embedding_loss",
                   "1 - cos(x1, x2) for target 1, max(0, cos - margin) for target -1", 3);
  using Attrs = ShapedLossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct HingeEmbeddingLoss {
  static constexpr OpTraits traits =
      detail::loss("hinge_embedding_loss", "x for target 1, max(0, margin - x) for target -1");
  using Attrs = ShapedLossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: x1, x2, target. */
struct MarginRankingLoss {
  static constexpr OpTraits traits =
      detail::loss("margin_ranking_loss", "max(0, margin - target * (x1 - x2))", 3);
  using Attrs = ShapedLossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: x (N,C) or (C), target (class indices), weight (C) or undefined. */
struct MultiMarginLoss {
  static constexpr OpTraits traits = detail::loss(
      "multi_margin_loss", "hinge loss of the target class against every other class", 3);
  struct Attrs {
    int p = 1;
    double margin = 1;
    Reduction reduction = Reduction::mean;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: x (N,C) or (C), target of the same shape: class indices up to the first -1. */
struct MultilabelMarginLoss {
  static constexpr OpTraits traits = detail::loss(
      "multilabel_margin_loss", "hinge loss of each target class against every other class");
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: x (..,C), target, weight or undefined. */
struct MultilabelSoftMarginLoss {
  static constexpr OpTraits traits =
      detail::loss("multilabel_soft_margin_loss",
                   "mean binary cross entropy of independent labels, from scores", 3);
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct PoissonNllLoss {
  static constexpr OpTraits traits =
      detail::loss("poisson_nll_loss", "negative log-likelihood of counts with a Poisson rate");
  struct Attrs {
    bool log_input = true;
    bool full = false;
    double eps = 1e-8;
    Reduction reduction = Reduction::mean;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct SoftMarginLoss {
  static constexpr OpTraits traits = detail::loss("soft_margin_loss", "log(1 + exp(-target * x))");
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: anchor, positive, negative; vectors are along the last dimension. */
struct TripletMarginLoss {
  static constexpr OpTraits traits = detail::loss(
      "triplet_margin_loss", "max(0, margin + d(anchor, positive) - d(anchor, negative))", 3);
  struct Attrs {
    double margin = 1;
    double p = 2;
    double eps = 1e-6;
    bool swap = false;
    Reduction reduction = Reduction::mean;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using MarginLossOps = type_list<CosineEmbeddingLoss, HingeEmbeddingLoss, MarginRankingLoss,
                                MultiMarginLoss, MultilabelMarginLoss, MultilabelSoftMarginLoss,
                                PoissonNllLoss, SoftMarginLoss, TripletMarginLoss>;

}  // namespace mezzo::op
