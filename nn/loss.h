// Loss modules, each with the options of the function that it calls. See also:
// autograd/ops/loss.h, autograd/ops/margin_loss.h and autograd/ops/ctc_loss.h (formulas, gradients,
// errors).
#pragma once

#include "../autograd/ops/ctc_loss.h"
#include "../autograd/ops/loss.h"
#include "../autograd/ops/margin_loss.h"
#include "model.h"

namespace mezzo::nn {

// Losses of a prediction and a target: nn::CrossEntropyLoss{{.label_smoothing = 0.1}} calls
// cross_entropy(x, target, {.label_smoothing = 0.1}). Weights among the options are copied into
// buffers, which move with the module and are saved.
#define MZ_LOSS(Layer, Options)                                  \
  /** The loss of that name as a layer. */                       \
  class MZ_API Layer : public Model<Layer> {                     \
   public:                                                       \
    /** Keeps the arguments for forward(). */                    \
    explicit Layer(const Options& options = {});                 \
    /** Calls the function. Errors: as the function. */          \
    Tensor forward(const Tensor& x, const Tensor& target) const; \
                                                                 \
   private:                                                      \
    Options options_;                                            \
  };
MZ_LOSS(BCELoss, BinaryCrossEntropyOptions)
MZ_LOSS(BCEWithLogitsLoss, BinaryCrossEntropyWithLogitsOptions)
MZ_LOSS(CrossEntropyLoss, CrossEntropyOptions)
MZ_LOSS(HingeEmbeddingLoss, HingeEmbeddingLossOptions)
MZ_LOSS(HuberLoss, HuberLossOptions)
MZ_LOSS(KLDivLoss, KlDivOptions)
MZ_LOSS(L1Loss, LossOptions)
MZ_LOSS(MSELoss, LossOptions)
MZ_LOSS(MultiLabelMarginLoss, MultilabelMarginLossOptions)
MZ_LOSS(MultiLabelSoftMarginLoss, MultilabelSoftMarginLossOptions)
MZ_LOSS(MultiMarginLoss, MultiMarginLossOptions)
MZ_LOSS(NLLLoss, NllLossOptions)
MZ_LOSS(PoissonNLLLoss, PoissonNllLossOptions)
MZ_LOSS(SmoothL1Loss, SmoothL1LossOptions)
MZ_LOSS(SoftMarginLoss, SoftMarginLossOptions)
#undef MZ_LOSS

// Losses of three tensors: nn::MarginRankingLoss{}(x1, x2, target),
// nn::TripletMarginLoss{}(anchor, positive, negative).
#define MZ_LOSS(Layer, Options)                                              \
  /** The loss of that name as a layer. */                                   \
  class MZ_API Layer : public Model<Layer> {                                 \
   public:                                                                   \
    /** Keeps the arguments for forward(). */                                \
    explicit Layer(const Options& options = {});                             \
    /** Calls the function. Errors: as the function. */                      \
    Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) const; \
                                                                             \
   private:                                                                  \
    Options options_;                                                        \
  };
MZ_LOSS(CosineEmbeddingLoss, CosineEmbeddingLossOptions)
MZ_LOSS(MarginRankingLoss, MarginRankingLossOptions)
MZ_LOSS(TripletMarginLoss, TripletMarginLossOptions)
#undef MZ_LOSS

/** Calls ctc_loss(): nn::CTCLoss{}(log_probs, targets, input_lengths, target_lengths). */
class MZ_API CTCLoss : public Model<CTCLoss> {
 public:
  /** Constructs the loss; by default the blank has index 0 and losses are averaged. */
  explicit CTCLoss(const CtcLossOptions& options = {});

  /** Returns ctc_loss() with the lengths in integer tensors, one element per sample. */
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) const;
  /** As above, with the lengths as numbers. */
  Tensor forward(const Tensor& log_probs, const Tensor& targets,
                 const std::vector<std::int64_t>& input_lengths,
                 const std::vector<std::int64_t>& target_lengths) const;

 private:
  CtcLossOptions options_;
};

/** Options of nn::GaussianNLLLoss. */
struct GaussianNllLossOptions {
  bool full = false;                      // adds the constant ln(2 pi) / 2
  double eps = 1e-6;                      // lower bound of the variances
  Reduction reduction = Reduction::mean;  // mean, sum or none
};

/** Returns the negative log-likelihood of a target under a normal distribution:
 *  (ln v + (x - t)^2 / v) / 2 with v = max(var, eps).
 *  Shape: x and target have the same shape; var has that shape, or last size 1, or lacks the last
 *  dimension.
 *  Precision: f32 (f64) inside, without casts; the result has the promoted dtype of the operands.
 *  Gradient: by calculus; a variance below eps gets the gradient at eps.
 *  Errors: ValueError for eps <= 0 and for a negative variance (this check synchronises with the
 *  device); ShapeError for other shapes. */
class MZ_API GaussianNLLLoss : public Model<GaussianNLLLoss> {
 public:
  /** Constructs the loss. Errors: ValueError unless eps > 0. */
  explicit GaussianNLLLoss(const GaussianNllLossOptions& options = {});

  /** Returns the loss for predictions x with variances `var`. */
  Tensor forward(const Tensor& x, const Tensor& target, const Tensor& var) const;

 private:
  GaussianNllLossOptions options_;
};

}  // namespace mezzo::nn
