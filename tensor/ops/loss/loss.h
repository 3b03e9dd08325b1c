// Losses. ops.h explains the notation and the precision tags.
//
// All losses are computed and reduced in f32 (f64) and rounded once. Unless stated otherwise,
// Reduction::mean divides by the number of terms; without any term the mean is nan and the sum 0.
// Losses of two operands compare them element by element; if their shapes differ but broadcast, a
// warning is logged once.
#pragma once

#include "../../core/op.h"
#include "../../core/reduce_options.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Options of l1_loss and mse_loss. */
struct LossOptions {
  Reduction reduction = Reduction::mean;  // none, sum or mean of the terms
};

/** Options of binary_cross_entropy. */
struct BinaryCrossEntropyOptions {
  Tensor weight = {};                     // factor of each term; broadcasts to the loss; a constant
  Reduction reduction = Reduction::mean;  // none, sum or mean of the terms
};

/** Options of binary_cross_entropy_with_logits. */
struct BinaryCrossEntropyWithLogitsOptions {
  Tensor weight = {};                     // factor of each term; broadcasts to the loss; a constant
  Reduction reduction = Reduction::mean;  // none, sum or mean of the terms
  Tensor pos_weight = {};  // factor of positive targets; broadcasts to the loss; a constant
};

/** Options of huber_loss. */
struct HuberLossOptions {
  Reduction reduction = Reduction::mean;  // none, sum or mean of the terms
  double delta = 1;                       // |x - t| at which the loss becomes linear
};

/** Options of kl_div. */
struct KlDivOptions {
  /** batchmean, the sum divided by size(0), is the divergence as mathematically defined. */
  Reduction reduction = Reduction::mean;
  bool log_target = false;  // the target holds logarithms too
};

/** Options of nll_loss. */
struct NllLossOptions {
  Tensor weight = {};                     // factor of each class (C); a constant without gradient
  std::int64_t ignore_index = -100;       // class index of targets to leave out
  Reduction reduction = Reduction::mean;  // none, sum or mean of the losses
};

/** Options of smooth_l1_loss. */
struct SmoothL1LossOptions {
  Reduction reduction = Reduction::mean;  // none, sum or mean of the terms
  double beta = 1;                        // |x - t| at which the loss becomes linear; 0: l1_loss
};

/** Returns -(t ln x + (1 - t) ln(1 - x)) of probabilities x, with each logarithm clamped at -100.
 *  Shape: x and target have one shape, or broadcast.
 *  Precision: banned: throws while casts are on; use binary_cross_entropy_with_logits.
 *  Gradient: (x - t) / max(x (1 - x), 1e-12) for x; ln(1 - x) - ln x for the target.
 *  Errors: ValueError naming the first x outside 0..1 (nan propagates); DtypeError for integers;
 *  ShapeError. */
MZ_API Tensor binary_cross_entropy(const Tensor& x, const Tensor& target,
                                   const BinaryCrossEntropyOptions& options = {});
/** Returns the binary cross entropy of scores, (1 - t) x - (1 + (pos_weight - 1) t) ln sigmoid(x),
 *  computed without overflow. Unlike PyTorch, where an infinite logarithm has the weight 0 their
 *  product is 0, not nan.
 *  Precision: f32.
 *  Gradient: sigmoid(x) - t for x, without pos_weight; -x for the target.
 *  Errors: DtypeError for integers; ShapeError. */
MZ_API Tensor binary_cross_entropy_with_logits(
    const Tensor& x, const Tensor& target, const BinaryCrossEntropyWithLogitsOptions& options = {});
/** Returns a^2 / 2 where a = |x - t| <= delta, else delta (a - delta / 2).
 *  Precision: f32.
 *  Gradient: x - t, clamped to +-delta.
 *  Errors: ValueError unless delta > 0; DtypeError for integers; ShapeError.
 *  Source: Huber, Ann. Math. Statist. 35, 1964. */
MZ_API Tensor huber_loss(const Tensor& x, const Tensor& target,
                         const HuberLossOptions& options = {});
/** Returns the Kullback-Leibler divergence of the target's distribution from exp(x): t (ln t - x),
 *  exactly 0 where t is 0, nan where it is negative.
 *  Precision: f32.
 *  Gradient: -t for x, ln t - x + 1 for the target, both 0 where t is 0.
 *  Errors: DtypeError for integers; ShapeError. */
MZ_API Tensor kl_div(const Tensor& x, const Tensor& target, const KlDivOptions& options = {});
/** Returns |x - t|.
 *  Precision: f32.
 *  Gradient: the sign of x - t, 0 at equality.
 *  Errors: DtypeError for integers; ShapeError. */
MZ_API Tensor l1_loss(const Tensor& x, const Tensor& target, const LossOptions& options = {});
/** Returns (x - t)^2.
 *  Precision: f32.
 *  Gradient: 2 (x - t).
 *  Errors: DtypeError for integers; ShapeError. */
MZ_API Tensor mse_loss(const Tensor& x, const Tensor& target, const LossOptions& options = {});
/** Returns the negative log-likelihood -w_y x_y of log-probabilities x and target classes y.
 *  Shape, mean and errors: as cross_entropy with class indices.
 *  Precision: f32.
 *  Gradient: -w_y at the target class, exactly 0 elsewhere. */
MZ_API Tensor nll_loss(const Tensor& x, const Tensor& target, const NllLossOptions& options = {});
/** Returns a^2 / (2 beta) where a = |x - t| < beta, else a - beta / 2.
 *  Precision: f32.
 *  Gradient: (x - t) / beta, clamped to +-1.
 *  Errors: ValueError for beta < 0; DtypeError for integers; ShapeError.
 *  Source: Girshick, ICCV 2015. */
MZ_API Tensor smooth_l1_loss(const Tensor& x, const Tensor& target,
                             const SmoothL1LossOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

// Each public op is a composite. See also: tensor/ops/elementwise/loss_terms.h (the formulas).

namespace detail {

constexpr OpTraits loss(std::string_view name, std::string_view summary, int inputs = 2) {
  return {.name = name, .precision = Precision::f32, .summary = summary, .inputs = inputs};
}

}  // namespace detail

struct LossAttrs {
  Reduction reduction = Reduction::mean;
};

/** Attributes of a loss with one parameter: beta, delta or margin. */
struct ShapedLossAttrs {
  double parameter = 1;
  Reduction reduction = Reduction::mean;
};

/** Operands: x, target, weight or undefined. Refused under casts: a 16-bit probability is too
 *  imprecise for the logarithm. */
struct BinaryCrossEntropy {
  static constexpr OpTraits traits{.name = "binary_cross_entropy",
                                   .precision = Precision::banned,
                                   .summary = "cross entropy of probabilities of two classes",
                                   .inputs = 3};
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: x, target, weight or undefined, pos_weight or undefined. */
struct BinaryCrossEntropyWithLogits {
  static constexpr OpTraits traits = detail::loss("binary_cross_entropy_with_logits",
                                                  "cross entropy of two classes, from scores", 4);
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct HuberLoss {
  static constexpr OpTraits traits =
      detail::loss("huber_loss", "squared error near 0, absolute beyond");
  using Attrs = ShapedLossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: x (logarithms), target. */
struct KlDiv {
  static constexpr OpTraits traits = detail::loss("kl_div", "Kullback-Leibler divergence");
  struct Attrs {
    bool log_target = false;
    Reduction reduction = Reduction::mean;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct L1Loss {
  static constexpr OpTraits traits = detail::loss("l1_loss", "absolute error");
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct MseLoss {
  static constexpr OpTraits traits = detail::loss("mse_loss", "squared error");
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: x (log-probabilities), target (class indices), weight (C) or undefined. */
struct NllLoss {
  static constexpr OpTraits traits =
      detail::loss("nll_loss", "negative log-likelihood of the target class", 3);
  struct Attrs {
    std::int64_t ignore_index = -100;
    Reduction reduction = Reduction::mean;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct SmoothL1Loss {
  static constexpr OpTraits traits =
      detail::loss("smooth_l1_loss", "absolute error, squared near 0");
  using Attrs = ShapedLossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using LossOps = type_list<BinaryCrossEntropy, BinaryCrossEntropyWithLogits, HuberLoss, KlDiv,
                          L1Loss, MseLoss, NllLoss, SmoothL1Loss>;

/** Checks that a reduction is not the one that only kl_div has. Errors: ValueError naming `op`. */
MZ_API void require_plain_reduction(std::string_view op, Reduction reduction);

}  // namespace mezzo::op
