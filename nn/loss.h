// Losses as modules: each holds the options of the function it calls.
// Sees: model.h.
// Read next: ../autograd/ops/loss.h, ../autograd/ops/margin_loss.h, ../autograd/ops/ctc_loss.h (formulas, gradients, errors).
#pragma once

#include "../autograd/ops/ctc_loss.h"
#include "../autograd/ops/loss.h"
#include "../autograd/ops/margin_loss.h"
#include "model.h"

namespace mezzo::nn {

// nn::CrossEntropyLoss{{.label_smoothing = 0.1}} calls cross_entropy(x, target, {.label_smoothing = 0.1}). Weights among the options become
// buffers: they are copied, moved with the module, and saved.
#define MZ_LOSS(Layer, Options)                                  \
  class MZ_API Layer : public Model<Layer> {                     \
   public:                                                       \
    explicit Layer(const Options& options = {});                 \
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

// nn::MarginRankingLoss{}(x1, x2, target), nn::TripletMarginLoss{}(anchor, positive, negative).
#define MZ_LOSS(Layer, Options)                                              \
  class MZ_API Layer : public Model<Layer> {                                 \
   public:                                                                   \
    explicit Layer(const Options& options = {});                             \
    Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) const; \
                                                                             \
   private:                                                                  \
    Options options_;                                                        \
  };
MZ_LOSS(CosineEmbeddingLoss, CosineEmbeddingLossOptions)
MZ_LOSS(MarginRankingLoss, MarginRankingLossOptions)
MZ_LOSS(TripletMarginLoss, TripletMarginLossOptions)
#undef MZ_LOSS

/** nn::CTCLoss{}(log_probs, targets, input_lengths, target_lengths) calls ctc_loss(). */
class MZ_API CTCLoss : public Model<CTCLoss> {
 public:
  explicit CTCLoss(const CtcLossOptions& options = {});

  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) const;
  Tensor forward(const Tensor& log_probs, const Tensor& targets,
                 const std::vector<std::int64_t>& input_lengths,
                 const std::vector<std::int64_t>& target_lengths) const;

 private:
  CtcLossOptions options_;
};

struct GaussianNllLossOptions {
  bool full = false;  // add the constant ln(2 pi) / 2
  double eps = 1e-6;  // the least that a variance counts as
  Reduction reduction = Reduction::mean;
};

/** Negative log-likelihood of a target under a normal distribution: (ln v + (x - t)^2 / v) / 2 with v = max(var, eps).
 *  Shape: x and target alike; var alike, or with 1 in place of the last size, or without it.
 *  Precision: f32 (f64) inside, casts off; the result has the widest operand's dtype.
 *  Gradient: by calculus; to a variance below eps as if it were eps.
 *  Errors: ValueError for eps <= 0 and a negative variance (which synchronises with the device); ShapeError. */
class MZ_API GaussianNLLLoss : public Model<GaussianNLLLoss> {
 public:
  explicit GaussianNLLLoss(const GaussianNllLossOptions& options = {});

  Tensor forward(const Tensor& x, const Tensor& target, const Tensor& var) const;

 private:
  GaussianNllLossOptions options_;
};

}  // namespace mezzo::nn
