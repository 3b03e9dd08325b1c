// Losses.
// Sees: tensor.
// Read next: ../../tensor/ops/cross_entropy.h, ../../tensor/ops/loss.h.
//
// All reduce in f32 (f64) and round once. With Reduction::mean, unless stated, a loss divides by the number of its terms; of no terms the mean
// is nan and the sum 0. Losses of two operands compare element by element; where shapes differ but broadcast, they warn once.
#pragma once

#include "../../tensor/reduction.h"
#include "../../tensor/tensor.h"

namespace mezzo {

struct CrossEntropyOptions {
  Tensor weight = {};                // factor of each class (C); a constant, without gradient
  std::int64_t ignore_index = -100;  // targets of this value count for nothing; for class indices alone
  Reduction reduction = Reduction::mean;
  double label_smoothing = 0;  // e: targets become (1 - e) target + e / C
};

/** Cross entropy between scores and target classes: the negative log-likelihood of the target under softmax(x).
 *  Shape: x (C), (N,C) or (N,C,d..); target class indices (), (N) or (N,d..), i64 or i32, or class probabilities of x's shape and dtype.
 *  Returns one loss per target, or 0-dim. The mean divides by the weights of the target classes, for probabilities by the number of samples.
 *  Precision: full; f16 and bf16 compute in f32 and round once.   Gradient: (softmax(x) - target) weighted; also to probabilities.
 *  Empty, or all ignored: mean nan, sum 0; the gradient of ignored samples is exactly 0.
 *  Errors: ShapeError, DtypeError; IndexError naming the first class out of range; ValueError unless 0 <= label_smoothing <= 1.
 *  Source: Goodfellow, Bengio, Courville, Deep Learning, 6.2; smoothing: Szegedy et al., CVPR 2016. */
MZ_API Tensor cross_entropy(const Tensor& x, const Tensor& target, const CrossEntropyOptions& options = {});

struct LossOptions {
  Reduction reduction = Reduction::mean;
};

struct BinaryCrossEntropyOptions {
  Tensor weight = {};  // factor of each term; broadcasts to the loss; a constant
  Reduction reduction = Reduction::mean;
};

struct BinaryCrossEntropyWithLogitsOptions {
  Tensor weight = {};  // factor of each term; broadcasts to the loss; a constant
  Reduction reduction = Reduction::mean;
  Tensor pos_weight = {};  // factor of positive targets; broadcasts to the loss; a constant
};

struct HuberLossOptions {
  Reduction reduction = Reduction::mean;
  double delta = 1;  // where the loss turns from quadratic to linear
};

struct KlDivOptions {
  Reduction reduction =
      Reduction::mean;      // batchmean, the sum divided by size(0), is the divergence as defined
  bool log_target = false;  // the target holds logarithms too
};

struct NllLossOptions {
  Tensor weight = {};                // factor of each class (C); a constant, without gradient
  std::int64_t ignore_index = -100;  // targets of this value count for nothing
  Reduction reduction = Reduction::mean;
};

struct SmoothL1LossOptions {
  Reduction reduction = Reduction::mean;
  double beta = 1;  // where the loss turns from quadratic to linear; 0: l1_loss
};

/** -(t ln x + (1 - t) ln(1 - x)) of probabilities x, each logarithm clamped at -100.
 *  Shape: x and target alike, or broadcast.   Precision: banned: refused under casts; use binary_cross_entropy_with_logits.
 *  Gradient: (x - t) / max(x (1 - x), 1e-12); ln(1 - x) - ln x to the target.
 *  Errors: ValueError naming the first x outside 0..1 (nan propagates); DtypeError for integers, ShapeError. */
MZ_API Tensor binary_cross_entropy(const Tensor& x, const Tensor& target,
                                   const BinaryCrossEntropyOptions& options = {});
/** The same from scores: (1 - t) x - (1 + (pos_weight - 1) t) ln sigmoid(x), without overflow.
 *  Precision: full.   Gradient: sigmoid(x) - t without pos_weight; -x to the target.   Errors: DtypeError for integers, ShapeError. */
MZ_API Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor& target,
                                               const BinaryCrossEntropyWithLogitsOptions& options = {});
/** a^2 / 2 where a = |x - t| <= delta, else delta (a - delta / 2). Precision: full. Gradient: x - t, clipped to +-delta.
 *  Errors: ValueError unless delta > 0; DtypeError for integers, ShapeError. Source: Huber, Ann. Math. Statist. 35, 1964. */
MZ_API Tensor huber_loss(const Tensor& x, const Tensor& target, const HuberLossOptions& options = {});
/** Divergence of the target's distribution from exp(x): t (ln t - x), exactly 0 where t <= 0. Precision: full.
 *  Gradient: -t, and ln t - x + 1 to the target, both 0 where t <= 0.   Errors: DtypeError for integers, ShapeError. */
MZ_API Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& options = {});
/** |x - t|. Precision: full. Gradient: the sign of x - t, 0 at equality. Errors: DtypeError for integers, ShapeError. */
MZ_API Tensor l1_loss(const Tensor& x, const Tensor& target, const LossOptions& options = {});
/** (x - t)^2. Precision: full. Gradient: 2 (x - t). Errors: DtypeError for integers, ShapeError. */
MZ_API Tensor mse_loss(const Tensor& x, const Tensor& target, const LossOptions& options = {});
/** -w_y x_y of log-probabilities x and target classes y. Shapes, mean and errors as cross_entropy with class indices.
 *  Precision: full.   Gradient: -w_y at the target class, exactly 0 elsewhere. */
MZ_API Tensor nll_loss(const Tensor& x, const Tensor& target, const NllLossOptions& options = {});
/** a^2 / (2 beta) where a = |x - t| < beta, else a - beta / 2. Precision: full. Gradient: (x - t) / beta, clipped to +-1.
 *  Errors: ValueError for beta < 0; DtypeError for integers, ShapeError. Source: Girshick, ICCV 2015. */
MZ_API Tensor smooth_l1_loss(const Tensor& x, const Tensor& target, const SmoothL1LossOptions& options = {});

}  // namespace mezzo
