// Margin losses, and poisson_nll_loss. As in loss.h, losses are computed in f32 (f64) and rounded
// once, Reduction::mean divides by the number of terms, and shapes that differ but broadcast log a
// warning once.
#pragma once

#include "../../core/reduce_options.h"
#include "../../core/tensor.h"
#include "loss.h"

namespace mezzo {

/** Options of cosine_embedding_loss. */
struct CosineEmbeddingLossOptions {
  double margin = 0;                      // cosine up to which dissimilar pairs cost nothing
  Reduction reduction = Reduction::mean;  // none, sum or mean of the terms
};

/** Options of hinge_embedding_loss. */
struct HingeEmbeddingLossOptions {
  double margin = 1;                      // x from which dissimilar pairs cost nothing
  Reduction reduction = Reduction::mean;  // none, sum or mean of the terms
};

/** Options of margin_ranking_loss. */
struct MarginRankingLossOptions {
  double margin = 0;                      // difference from which the right order costs nothing
  Reduction reduction = Reduction::mean;  // none, sum or mean of the terms
};

/** Options of multi_margin_loss. */
struct MultiMarginLossOptions {
  int p = 1;                              // power of each violation: 1 or 2
  double margin = 1;                      // difference from which a class costs nothing
  Tensor weight = {};                     // factor of each target class (C); a constant
  Reduction reduction = Reduction::mean;  // none, sum or mean of the losses
};

/** Options of multilabel_margin_loss. */
struct MultilabelMarginLossOptions {
  Reduction reduction = Reduction::mean;  // none, sum or mean of the losses
};

/** Options of multilabel_soft_margin_loss. */
struct MultilabelSoftMarginLossOptions {
  Tensor weight = {};  // factor of each term; broadcasts to the scores; a constant
  Reduction reduction = Reduction::mean;  // none, sum or mean of the losses
};

/** Options of poisson_nll_loss. */
struct PoissonNllLossOptions {
  bool log_input = true;                  // x is the logarithm of the rate
  bool full = false;                      // add Stirling's approximation of ln t! where t > 1
  double eps = 1e-8;                      // added to the rate before its logarithm
  Reduction reduction = Reduction::mean;  // none, sum or mean of the terms
};

/** Options of soft_margin_loss. */
struct SoftMarginLossOptions {
  Reduction reduction = Reduction::mean;  // none, sum or mean of the terms
};

/** Options of triplet_margin_loss. */
struct TripletMarginLossOptions {
  double margin = 1;                      // how much farther the negative has to be
  double p = 2;                           // order of the norm; may be infinity
  double eps = 1e-6;                      // added to every component of a difference
  bool swap = false;                      // use min(d(anchor, negative), d(positive, negative))
  Reduction reduction = Reduction::mean;  // none, sum or mean of the losses
};

/** Returns 1 - cos(x1, x2) where the target is 1, max(0, cos - margin) where it is -1, else 0; cos
 *  = x1 x2 / sqrt((|x1|^2 + 1e-12)(|x2|^2 + 1e-12)).
 *  Shape: x1 and x2 [n,d] with target [n], or [d] with target [].
 *  Precision: f32. Unlike PyTorch, vectors whose squares overflow are scaled.
 *  Errors: ShapeError; DtypeError for integer vectors. */
MZ_API Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                                    const CosineEmbeddingLossOptions& options = {});
/** Returns x where the target is 1, max(0, margin - x) where it is -1, and their sum for any other
 *  target.
 *  Precision: f32.
 *  Gradient: for x only.
 *  Errors: ShapeError; DtypeError for integers. */
MZ_API Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target,
                                   const HingeEmbeddingLossOptions& options = {});
/** Returns max(0, margin - target (x1 - x2)); the target broadcasts.
 *  Precision: f32.
 *  Gradient: 0 where the argument of max is 0.
 *  Errors: ShapeError; DtypeError for integers. */
MZ_API Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                                  const MarginRankingLossOptions& options = {});
/** Returns the sum over the other classes j of max(0, margin - x_y + x_j)^p, times w_y / C.
 *  Shape: x (C) or (N,C), target () or (N), i64 or i32.
 *  Precision: f32.
 *  Errors: ShapeError, DtypeError; ValueError unless p is 1 or 2; IndexError naming the first class
 *  out of range. */
MZ_API Tensor multi_margin_loss(const Tensor& x, const Tensor& target,
                                const MultiMarginLossOptions& options = {});
/** Returns the sum over target classes y and other classes j of max(0, 1 - (x_y - x_j)), divided by
 *  C. A row of the target lists classes up to its first -1; a row without classes costs 0.
 *  Shape: x and target (i64 or i32) both (C) or (N,C).
 *  Precision: f32.
 *  Errors: ShapeError, DtypeError; IndexError naming the first class out of range. */
MZ_API Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target,
                                     const MultilabelMarginLossOptions& options = {});
/** Returns the mean over the last dimension of binary_cross_entropy_with_logits, then reduced.
 *  Precision: f32.
 *  Errors: ShapeError; DtypeError for integers. */
MZ_API Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target,
                                          const MultilabelSoftMarginLossOptions& options = {});
/** Returns e^x - t x, or x - t ln(x + eps) without log_input. Unlike PyTorch, t = 0 leaves out an
 *  infinite logarithm.
 *  Precision: f32.
 *  Errors: ShapeError; DtypeError for integers. */
MZ_API Tensor poisson_nll_loss(const Tensor& x, const Tensor& target,
                               const PoissonNllLossOptions& options = {});
/** Returns ln(1 + exp(-t x)), computed without overflow. Unlike PyTorch, the product of 0 and an
 *  infinite x is 0.
 *  Precision: f32.
 *  Gradient: -t sigmoid(-t x) for x, -x sigmoid(-t x) for the target.
 *  Errors: ShapeError; DtypeError for integers. */
MZ_API Tensor soft_margin_loss(const Tensor& x, const Tensor& target,
                               const SoftMarginLossOptions& options = {});
/** Returns max(0, margin + d(anchor, positive) - d(anchor, negative)), where d(u, v) = |u - v +
 *  eps|_p over the last dimension.
 *  Precision: f32.
 *  Errors: ShapeError; DtypeError for integers; ValueError unless p > 0.
 *  Source: Balntas et al., BMVC 2016 (with swap). */
MZ_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive,
                                  const Tensor& negative,
                                  const TripletMarginLossOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

// Each public op is a composite. See also: tensor/ops/elementwise/loss_terms.h (the formulas).

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
