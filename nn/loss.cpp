#include "loss.h"

#include <cmath>

#include "../autograd/grad_mode.h"
#include "../autograd/ops.h"
#include "../tensor/core/api_scope.h"
#include "../tensor/ops/require.h"
#include "../tensor/text/text.h"

namespace mezzo::nn {

namespace {

/** Replaces a defined weight by a buffer of the module with its values. */
void copy_to_buffer(Module& module, const char* name, Tensor& weight) {
  if (weight.defined()) weight = module.add_buffer(name, weight.detach().clone());
}

template <class Options> void copy_weights(Module& module, Options& options) {
  if constexpr (requires { options.weight; }) copy_to_buffer(module, "weight", options.weight);
  if constexpr (requires { options.pos_weight; })
    copy_to_buffer(module, "pos_weight", options.pos_weight);
}

}  // namespace

#define MZ_LOSS(Layer, Options, function)                                                     \
  Layer::Layer(const Options& options) : options_(options) { copy_weights(*this, options_); } \
  Tensor Layer::forward(const Tensor& x, const Tensor& target) const {                        \
    return function(x, target, options_);                                                     \
  }
MZ_LOSS(BCELoss, BinaryCrossEntropyOptions, binary_cross_entropy)
MZ_LOSS(BCEWithLogitsLoss, BinaryCrossEntropyWithLogitsOptions, binary_cross_entropy_with_logits)
MZ_LOSS(CrossEntropyLoss, CrossEntropyOptions, cross_entropy)
MZ_LOSS(HingeEmbeddingLoss, HingeEmbeddingLossOptions, hinge_embedding_loss)
MZ_LOSS(HuberLoss, HuberLossOptions, huber_loss)
MZ_LOSS(KLDivLoss, KlDivOptions, kl_div)
MZ_LOSS(L1Loss, LossOptions, l1_loss)
MZ_LOSS(MSELoss, LossOptions, mse_loss)
MZ_LOSS(MultiLabelMarginLoss, MultilabelMarginLossOptions, multilabel_margin_loss)
MZ_LOSS(MultiLabelSoftMarginLoss, MultilabelSoftMarginLossOptions, multilabel_soft_margin_loss)
MZ_LOSS(MultiMarginLoss, MultiMarginLossOptions, multi_margin_loss)
MZ_LOSS(NLLLoss, NllLossOptions, nll_loss)
MZ_LOSS(PoissonNLLLoss, PoissonNllLossOptions, poisson_nll_loss)
MZ_LOSS(SmoothL1Loss, SmoothL1LossOptions, smooth_l1_loss)
MZ_LOSS(SoftMarginLoss, SoftMarginLossOptions, soft_margin_loss)
#undef MZ_LOSS

#define MZ_LOSS(Layer, Options, function)                                          \
  Layer::Layer(const Options& options) : options_(options) {}                      \
  Tensor Layer::forward(const Tensor& a, const Tensor& b, const Tensor& c) const { \
    return function(a, b, c, options_);                                            \
  }
MZ_LOSS(CosineEmbeddingLoss, CosineEmbeddingLossOptions, cosine_embedding_loss)
MZ_LOSS(MarginRankingLoss, MarginRankingLossOptions, margin_ranking_loss)
MZ_LOSS(TripletMarginLoss, TripletMarginLossOptions, triplet_margin_loss)
#undef MZ_LOSS

CTCLoss::CTCLoss(const CtcLossOptions& options) : options_(options) {}

Tensor CTCLoss::forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                        const Tensor& target_lengths) const {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths, options_);
}
Tensor CTCLoss::forward(const Tensor& log_probs, const Tensor& targets,
                        const std::vector<std::int64_t>& input_lengths,
                        const std::vector<std::int64_t>& target_lengths) const {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths, options_);
}

namespace {

/** Returns the variances in a shape that broadcasts to `shape`. */
Tensor fitted_variance(const Tensor& var, const Shape& shape) {
  if (var.shape() == shape) return var;
  Shape shorter = shape, single = shape;
  if (!shape.empty()) {
    shorter.erase(shape.rank() - 1);
    single[shape.rank() - 1] = 1;
  }
  if (var.shape() == shorter) return var.unsqueeze(-1);
  if (!(var.shape() == single))
    fail<ShapeError>("GaussianNLLLoss",
                     {.what = "the variances do not fit the predictions",
                      .got = str(var),
                      .expected = str(str(shape), ", ", str(single), " or ", str(shorter))});
  return var;
}

Tensor reduced(const Tensor& loss, Reduction reduction) {
  switch (reduction) {
    case Reduction::none: return loss;
    case Reduction::sum: return sum(loss);
    case Reduction::mean:
    case Reduction::batchmean: break;
  }
  return mean(loss);
}

}  // namespace

GaussianNLLLoss::GaussianNLLLoss(const GaussianNllLossOptions& options) : options_(options) {
  if (!(options.eps > 0))
    fail<ValueError>(
        "GaussianNLLLoss",
        {.what = "eps must be positive", .got = str(options.eps), .expected = "eps > 0"});
}

Tensor GaussianNLLLoss::forward(const Tensor& x, const Tensor& target, const Tensor& var) const {
  const ApiScope called("GaussianNLLLoss");
  const Tensor operands[] = {x, target, var};
  require_floating_operands("GaussianNLLLoss", operands);
  if (!(x.shape() == target.shape()))
    fail<ShapeError>("GaussianNLLLoss",
                     {.what = "prediction and target differ in shape",
                      .got = str("prediction ", str(x), ", target ", str(target))});
  const CastScope no_casts(nullptr);
  const DType result = promoted_dtype(operands), inside = is_low(result) ? f32 : result;
  const Tensor variance = fitted_variance(var, x.shape()).to(inside);
  if (any(lt(variance.detach(), 0.0)).item<bool>())
    fail<ValueError>("GaussianNLLLoss", {.what = "a variance is negative", .got = str(var)});
  // The value eps with the gradient of the variance.
  const Tensor as_least = variance - variance.detach() + options_.eps;
  const Tensor v = where(lt(variance, options_.eps), as_least, variance);
  const Tensor error = x.to(inside) - target.to(inside);
  Tensor loss = (log(v) + error * error / v) * 0.5;
  if (options_.full) loss = loss + 0.5 * std::log(2 * std::acos(-1.0));
  return reduced(loss, options_.reduction).to(result);
}

}  // namespace mezzo::nn
