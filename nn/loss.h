// Loss modules, each with the options of the function that it calls. See also:
// tensor/ops/loss/loss.h, tensor/ops/loss/margin_loss.h and tensor/ops/loss/ctc_loss.h (formulas,
// gradients, errors).
#pragma once

#include "../tensor/ops/loss/cross_entropy.h"
#include "../tensor/ops/loss/ctc_loss.h"
#include "../tensor/ops/loss/loss.h"
#include "../tensor/ops/loss/margin_loss.h"
#include "named_options.h"

namespace mezzo::nn {

// Losses of a prediction and a target: nn::CrossEntropyLoss{.label_smoothing = 0.1} calls
// cross_entropy(x, target, {.label_smoothing = 0.1}). Weights among the options are copied into
// buffers, which move with the module and are saved.
/** Calls binary_cross_entropy(). */
struct MZ_API BCELoss : NamedOptions<BCELoss, &BinaryCrossEntropyOptions::weight> {
  NameTheOthers names = {};                // only the first option may lack its name
  Tensor weight = given_.weight;           // as BinaryCrossEntropyOptions::weight
  Reduction reduction = given_.reduction;  // as BinaryCrossEntropyOptions::reduction
  Constructed constructed = construct();   // copies the weights into buffers

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;

 private:
  Constructed construct();
};
/** Calls binary_cross_entropy_with_logits(). */
struct MZ_API BCEWithLogitsLoss
    : NamedOptions<BCEWithLogitsLoss, &BinaryCrossEntropyWithLogitsOptions::weight> {
  NameTheOthers names = {};                // only the first option may lack its name
  Tensor weight = given_.weight;           // as BinaryCrossEntropyWithLogitsOptions::weight
  Reduction reduction = given_.reduction;  // as BinaryCrossEntropyWithLogitsOptions::reduction
  Tensor pos_weight = given_.pos_weight;   // as BinaryCrossEntropyWithLogitsOptions::pos_weight
  Constructed constructed = construct();   // copies the weights into buffers

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;

 private:
  Constructed construct();
};
/** Calls cross_entropy(). */
struct MZ_API CrossEntropyLoss : NamedOptions<CrossEntropyLoss, &CrossEntropyOptions::weight> {
  NameTheOthers names = {};                         // only the first option may lack its name
  Tensor weight = given_.weight;                    // as CrossEntropyOptions::weight
  std::int64_t ignore_index = given_.ignore_index;  // as CrossEntropyOptions::ignore_index
  Reduction reduction = given_.reduction;           // as CrossEntropyOptions::reduction
  double label_smoothing = given_.label_smoothing;  // as CrossEntropyOptions::label_smoothing
  Constructed constructed = construct();            // copies the weights into buffers

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;

 private:
  Constructed construct();
};
/** Calls hinge_embedding_loss(). */
struct MZ_API HingeEmbeddingLoss
    : NamedOptions<HingeEmbeddingLoss, &HingeEmbeddingLossOptions::margin> {
  NameTheOthers names = {};                // only the first option may lack its name
  double margin = given_.margin;           // as HingeEmbeddingLossOptions::margin
  Reduction reduction = given_.reduction;  // as HingeEmbeddingLossOptions::reduction

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;
};
/** Calls huber_loss(). */
struct MZ_API HuberLoss : NamedOptions<HuberLoss, &HuberLossOptions::delta> {
  NameTheOthers names = {};                // only the first option may lack its name
  Reduction reduction = given_.reduction;  // as HuberLossOptions::reduction
  double delta = given_.delta;             // as HuberLossOptions::delta

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;
};
/** Calls kl_div(). */
struct MZ_API KLDivLoss : NamedOptions<KLDivLoss, &KlDivOptions::reduction> {
  NameTheOthers names = {};                // only the first option may lack its name
  Reduction reduction = given_.reduction;  // as KlDivOptions::reduction
  bool log_target = given_.log_target;     // as KlDivOptions::log_target

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;
};
/** Calls l1_loss(). */
struct MZ_API L1Loss : NamedOptions<L1Loss, &LossOptions::reduction> {
  NameTheOthers names = {};                // only the first option may lack its name
  Reduction reduction = given_.reduction;  // as LossOptions::reduction

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;
};
/** Calls mse_loss(). */
struct MZ_API MSELoss : NamedOptions<MSELoss, &LossOptions::reduction> {
  NameTheOthers names = {};                // only the first option may lack its name
  Reduction reduction = given_.reduction;  // as LossOptions::reduction

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;
};
/** Calls multilabel_margin_loss(). */
struct MZ_API MultiLabelMarginLoss
    : NamedOptions<MultiLabelMarginLoss, &MultilabelMarginLossOptions::reduction> {
  NameTheOthers names = {};                // only the first option may lack its name
  Reduction reduction = given_.reduction;  // as MultilabelMarginLossOptions::reduction

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;
};
/** Calls multilabel_soft_margin_loss(). */
struct MZ_API MultiLabelSoftMarginLoss
    : NamedOptions<MultiLabelSoftMarginLoss, &MultilabelSoftMarginLossOptions::weight> {
  NameTheOthers names = {};                // only the first option may lack its name
  Tensor weight = given_.weight;           // as MultilabelSoftMarginLossOptions::weight
  Reduction reduction = given_.reduction;  // as MultilabelSoftMarginLossOptions::reduction
  Constructed constructed = construct();   // copies the weights into buffers

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;

 private:
  Constructed construct();
};
/** Calls multi_margin_loss(). */
struct MZ_API MultiMarginLoss : NamedOptions<MultiMarginLoss, &MultiMarginLossOptions::p> {
  NameTheOthers names = {};                // only the first option may lack its name
  int p = given_.p;                        // as MultiMarginLossOptions::p
  double margin = given_.margin;           // as MultiMarginLossOptions::margin
  Tensor weight = given_.weight;           // as MultiMarginLossOptions::weight
  Reduction reduction = given_.reduction;  // as MultiMarginLossOptions::reduction
  Constructed constructed = construct();   // copies the weights into buffers

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;

 private:
  Constructed construct();
};
/** Calls nll_loss(). */
struct MZ_API NLLLoss : NamedOptions<NLLLoss, &NllLossOptions::weight> {
  NameTheOthers names = {};                         // only the first option may lack its name
  Tensor weight = given_.weight;                    // as NllLossOptions::weight
  std::int64_t ignore_index = given_.ignore_index;  // as NllLossOptions::ignore_index
  Reduction reduction = given_.reduction;           // as NllLossOptions::reduction
  Constructed constructed = construct();            // copies the weights into buffers

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;

 private:
  Constructed construct();
};
/** Calls poisson_nll_loss(). */
struct MZ_API PoissonNLLLoss : NamedOptions<PoissonNLLLoss, &PoissonNllLossOptions::log_input> {
  NameTheOthers names = {};                // only the first option may lack its name
  bool log_input = given_.log_input;       // as PoissonNllLossOptions::log_input
  bool full = given_.full;                 // as PoissonNllLossOptions::full
  double eps = given_.eps;                 // as PoissonNllLossOptions::eps
  Reduction reduction = given_.reduction;  // as PoissonNllLossOptions::reduction

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;
};
/** Calls smooth_l1_loss(). */
struct MZ_API SmoothL1Loss : NamedOptions<SmoothL1Loss, &SmoothL1LossOptions::beta> {
  NameTheOthers names = {};                // only the first option may lack its name
  Reduction reduction = given_.reduction;  // as SmoothL1LossOptions::reduction
  double beta = given_.beta;               // as SmoothL1LossOptions::beta

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;
};
/** Calls soft_margin_loss(). */
struct MZ_API SoftMarginLoss : NamedOptions<SoftMarginLoss, &SoftMarginLossOptions::reduction> {
  NameTheOthers names = {};                // only the first option may lack its name
  Reduction reduction = given_.reduction;  // as SoftMarginLossOptions::reduction

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x, const Tensor& target) const;
};

// Losses of three tensors: nn::MarginRankingLoss{}(x1, x2, target),
// nn::TripletMarginLoss{}(anchor, positive, negative).
/** Calls cosine_embedding_loss(). */
struct MZ_API CosineEmbeddingLoss
    : NamedOptions<CosineEmbeddingLoss, &CosineEmbeddingLossOptions::margin> {
  NameTheOthers names = {};                // only the first option may lack its name
  double margin = given_.margin;           // as CosineEmbeddingLossOptions::margin
  Reduction reduction = given_.reduction;  // as CosineEmbeddingLossOptions::reduction

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) const;
};
/** Calls margin_ranking_loss(). */
struct MZ_API MarginRankingLoss
    : NamedOptions<MarginRankingLoss, &MarginRankingLossOptions::margin> {
  NameTheOthers names = {};                // only the first option may lack its name
  double margin = given_.margin;           // as MarginRankingLossOptions::margin
  Reduction reduction = given_.reduction;  // as MarginRankingLossOptions::reduction

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) const;
};
/** Calls triplet_margin_loss(). */
struct MZ_API TripletMarginLoss
    : NamedOptions<TripletMarginLoss, &TripletMarginLossOptions::margin> {
  NameTheOthers names = {};                // only the first option may lack its name
  double margin = given_.margin;           // as TripletMarginLossOptions::margin
  double p = given_.p;                     // as TripletMarginLossOptions::p
  double eps = given_.eps;                 // as TripletMarginLossOptions::eps
  bool swap = given_.swap;                 // as TripletMarginLossOptions::swap
  Reduction reduction = given_.reduction;  // as TripletMarginLossOptions::reduction

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) const;
};

/** Calls ctc_loss(): nn::CTCLoss{}(log_probs, targets, input_lengths, target_lengths). */
struct MZ_API CTCLoss : NamedOptions<CTCLoss, &CtcLossOptions::blank> {
  NameTheOthers names = {};                   // only the first option may lack its name
  std::int64_t blank = given_.blank;          // as CtcLossOptions::blank
  Reduction reduction = given_.reduction;     // as CtcLossOptions::reduction
  bool zero_infinity = given_.zero_infinity;  // as CtcLossOptions::zero_infinity

  /** Returns ctc_loss() with the lengths in integer tensors, one element per sample. */
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) const;
  /** As above, with the lengths as numbers. */
  Tensor forward(const Tensor& log_probs, const Tensor& targets,
                 const std::vector<std::int64_t>& input_lengths,
                 const std::vector<std::int64_t>& target_lengths) const;
};

/** Options of nn::GaussianNLLLoss. */
struct GaussianNllLossOptions {
  bool full = false;                      // adds the constant ln(2 pi) / 2
  double eps = 1e-6;                      // lower bound of the variances
  Reduction reduction = Reduction::mean;  // mean, sum or none
};

/** Returns the negative log-likelihood of a target under a normal distribution:
 *  (ln v + (x - t)^2 / v) / 2 with v = max(var, eps). Unlike in PyTorch, squares of huge errors do
 *  not overflow where the quotient fits.
 *  Shape: x and target have the same shape; var has that shape, or last size 1, or lacks the last
 *  dimension.
 *  Precision: f32 (f64) inside, without casts; the result has the promoted dtype of the operands.
 *  Gradient: by calculus; a variance below eps gets the gradient at eps.
 *  Errors: ValueError for eps <= 0 and for a negative variance (this check synchronises with the
 *  device); ShapeError for other shapes. */
struct MZ_API GaussianNLLLoss : NamedOptions<GaussianNLLLoss, &GaussianNllLossOptions::full> {
  NameTheOthers names = {};                // only the first option may lack its name
  bool full = given_.full;                 // as GaussianNllLossOptions::full
  double eps = given_.eps;                 // as GaussianNllLossOptions::eps
  Reduction reduction = given_.reduction;  // as GaussianNllLossOptions::reduction
  Constructed constructed = construct();   // checks eps

  /** Returns the loss for predictions x with variances `var`. */
  Tensor forward(const Tensor& x, const Tensor& target, const Tensor& var) const;

 private:
  Constructed construct();
};

}  // namespace mezzo::nn
