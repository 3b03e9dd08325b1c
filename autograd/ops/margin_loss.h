// Losses that ask for a margin, and poisson_nll_loss.
// Sees: tensor.
// Read next: loss.h, ../../tensor/ops/margin_loss.h.
//
// As in loss.h: f32 (f64) inside and one rounding, the mean divides by the number of terms, comparing different shapes warns once.
#pragma once

#include "../../tensor/reduction.h"
#include "../../tensor/tensor.h"

namespace mezzo {

struct CosineEmbeddingLossOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};

struct HingeEmbeddingLossOptions {
  double margin = 1;
  Reduction reduction = Reduction::mean;
};

struct MarginRankingLossOptions {
  double margin = 0;
  Reduction reduction = Reduction::mean;
};

struct MultiMarginLossOptions {
  int p = 1;  // power of each violation: 1 or 2
  double margin = 1;
  Tensor weight = {};  // factor of each target class (C); a constant
  Reduction reduction = Reduction::mean;
};

struct MultilabelMarginLossOptions {
  Reduction reduction = Reduction::mean;
};

struct MultilabelSoftMarginLossOptions {
  Tensor weight = {};  // factor of each term; broadcasts to the scores; a constant
  Reduction reduction = Reduction::mean;
};

struct PoissonNllLossOptions {
  bool log_input = true;  // x is the logarithm of the rate
  bool full = false;      // add Stirling's approximation of ln t! where t > 1
  double eps = 1e-8;      // added to the rate before its logarithm
  Reduction reduction = Reduction::mean;
};

struct SoftMarginLossOptions {
  Reduction reduction = Reduction::mean;
};

struct TripletMarginLossOptions {
  double margin = 1;
  double p = 2;       // of the norm; infinity too
  double eps = 1e-6;  // added to every component of a difference
  bool swap = false;  // measure the negative from the anchor or the positive, whichever is nearer
  Reduction reduction = Reduction::mean;
};

/** 1 - cos(x1, x2) where the target is 1, max(0, cos - margin) where it is -1, else 0; cos = x1 x2 / sqrt((|x1|^2 + 1e-12)(|x2|^2 + 1e-12)).
 *  Shape: x1 and x2 [n,d] with target [n], or [d] with target [].   Precision: full.   Errors: ShapeError, DtypeError for integer vectors. */
MZ_API Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                                    const CosineEmbeddingLossOptions& options = {});
/** x where the target is 1, max(0, margin - x) where it is -1, both for any other target. Precision: full.
 *  Gradient: none to the target.   Errors: ShapeError, DtypeError for integers. */
MZ_API Tensor hinge_embedding_loss(const Tensor& x, const Tensor& target,
                                   const HingeEmbeddingLossOptions& options = {});
/** max(0, margin - target (x1 - x2)); the target broadcasts. Precision: full. Gradient: 0 at the kink.
 *  Errors: ShapeError, DtypeError for integers. */
MZ_API Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& target,
                                  const MarginRankingLossOptions& options = {});
/** Sum over the other classes of max(0, margin - x_y + x_j)^p, times w_y / C. Shape: x (C) or (N,C), target () or (N), i64 or i32.
 *  Precision: full.   Errors: ShapeError, DtypeError; ValueError unless p is 1 or 2; IndexError naming the first class out of range. */
MZ_API Tensor multi_margin_loss(const Tensor& x, const Tensor& target,
                                const MultiMarginLossOptions& options = {});
/** Sum over target classes y and other classes j of max(0, 1 - (x_y - x_j)), divided by C. A row of the target names classes up to its first
 *  -1; a row that names none costs 0. Shape: x and target (i64 or i32) both (C) or (N,C).   Precision: full.
 *  Errors: ShapeError, DtypeError; IndexError naming the first class out of range. */
MZ_API Tensor multilabel_margin_loss(const Tensor& x, const Tensor& target,
                                     const MultilabelMarginLossOptions& options = {});
/** Mean over the last dimension of binary_cross_entropy_with_logits, then reduced. Precision: full.
 *  Errors: ShapeError, DtypeError for integers. */
MZ_API Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& target,
                                          const MultilabelSoftMarginLossOptions& options = {});
/** e^x - t x, or x - t ln(x + eps) for plain rates. Precision: full. Errors: ShapeError, DtypeError for integers. */
MZ_API Tensor poisson_nll_loss(const Tensor& x, const Tensor& target,
                               const PoissonNllLossOptions& options = {});
/** ln(1 + exp(-t x)), without overflow. Precision: full. Gradient: -t sigmoid(-t x), -x sigmoid(-t x).
 *  Errors: ShapeError, DtypeError for integers. */
MZ_API Tensor soft_margin_loss(const Tensor& x, const Tensor& target,
                               const SoftMarginLossOptions& options = {});
/** max(0, margin + d(anchor, positive) - d(anchor, negative)), d(u, v) = |u - v + eps|_p over the last dimension. Precision: full.
 *  Errors: ShapeError, DtypeError for integers; ValueError unless p > 0. Source: Balntas et al., BMVC 2016 (with swap). */
MZ_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                  const TripletMarginLossOptions& options = {});

}  // namespace mezzo
