#include "loss.h"

#include <cmath>

#include "../tensor/core/dispatch.h"
#include "../tensor/core/error.h"
#include "../tensor/ops/ops.h"
#include "../tensor/ops/require.h"
#include "../tensor/text/text.h"

namespace mezzo::nn {

namespace {

/** Replaces a defined weight by a buffer of the module with its values. */
void copy_to_buffer(Module& module, const char* name, Tensor& weight) {
  if (weight.defined()) weight = module.add_buffer(name, weight.detach().clone());
}

}  // namespace

Constructed BCELoss::construct() {
  copy_to_buffer(*this, "weight", weight);
  given_ = {};  // shares the tensors that were copied
  return {};
}

Tensor BCELoss::forward(const Tensor& x, const Tensor& target) const {
  return binary_cross_entropy(x, target, {weight, reduction});
}

Constructed BCEWithLogitsLoss::construct() {
  copy_to_buffer(*this, "weight", weight);
  copy_to_buffer(*this, "pos_weight", pos_weight);
  given_ = {};  // shares the tensors that were copied
  return {};
}

Tensor BCEWithLogitsLoss::forward(const Tensor& x, const Tensor& target) const {
  return binary_cross_entropy_with_logits(x, target, {weight, reduction, pos_weight});
}

Constructed CrossEntropyLoss::construct() {
  copy_to_buffer(*this, "weight", weight);
  given_ = {};  // shares the tensors that were copied
  return {};
}

Tensor CrossEntropyLoss::forward(const Tensor& x, const Tensor& target) const {
  return cross_entropy(x, target, {weight, ignore_index, reduction, label_smoothing});
}

Tensor HingeEmbeddingLoss::forward(const Tensor& x, const Tensor& target) const {
  return hinge_embedding_loss(x, target, {margin, reduction});
}

Tensor HuberLoss::forward(const Tensor& x, const Tensor& target) const {
  return huber_loss(x, target, {reduction, delta});
}

Tensor KLDivLoss::forward(const Tensor& x, const Tensor& target) const {
  return kl_div(x, target, {reduction, log_target});
}

Tensor L1Loss::forward(const Tensor& x, const Tensor& target) const {
  return l1_loss(x, target, {reduction});
}

Tensor MSELoss::forward(const Tensor& x, const Tensor& target) const {
  return mse_loss(x, target, {reduction});
}

Tensor MultiLabelMarginLoss::forward(const Tensor& x, const Tensor& target) const {
  return multilabel_margin_loss(x, target, {reduction});
}

Constructed MultiLabelSoftMarginLoss::construct() {
  copy_to_buffer(*this, "weight", weight);
  given_ = {};  // shares the tensors that were copied
  return {};
}

Tensor MultiLabelSoftMarginLoss::forward(const Tensor& x, const Tensor& target) const {
  return multilabel_soft_margin_loss(x, target, {weight, reduction});
}

Constructed MultiMarginLoss::construct() {
  copy_to_buffer(*this, "weight", weight);
  given_ = {};  // shares the tensors that were copied
  return {};
}

Tensor MultiMarginLoss::forward(const Tensor& x, const Tensor& target) const {
  return multi_margin_loss(x, target, {p, margin, weight, reduction});
}

Constructed NLLLoss::construct() {
  copy_to_buffer(*this, "weight", weight);
  given_ = {};  // shares the tensors that were copied
  return {};
}

Tensor NLLLoss::forward(const Tensor& x, const Tensor& target) const {
  return nll_loss(x, target, {weight, ignore_index, reduction});
}

Tensor PoissonNLLLoss::forward(const Tensor& x, const Tensor& target) const {
  return poisson_nll_loss(x, target, {log_input, full, eps, reduction});
}

Tensor SmoothL1Loss::forward(const Tensor& x, const Tensor& target) const {
  return smooth_l1_loss(x, target, {reduction, beta});
}

Tensor SoftMarginLoss::forward(const Tensor& x, const Tensor& target) const {
  return soft_margin_loss(x, target, {reduction});
}

Tensor CosineEmbeddingLoss::forward(const Tensor& a, const Tensor& b, const Tensor& c) const {
  return cosine_embedding_loss(a, b, c, {margin, reduction});
}

Tensor MarginRankingLoss::forward(const Tensor& a, const Tensor& b, const Tensor& c) const {
  return margin_ranking_loss(a, b, c, {margin, reduction});
}

Tensor TripletMarginLoss::forward(const Tensor& a, const Tensor& b, const Tensor& c) const {
  return triplet_margin_loss(a, b, c, {margin, p, eps, swap, reduction});
}

Tensor CTCLoss::forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                        const Tensor& target_lengths) const {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths,
                  {blank, reduction, zero_infinity});
}
Tensor CTCLoss::forward(const Tensor& log_probs, const Tensor& targets,
                        const std::vector<std::int64_t>& input_lengths,
                        const std::vector<std::int64_t>& target_lengths) const {
  return ctc_loss(log_probs, targets, input_lengths, target_lengths,
                  {blank, reduction, zero_infinity});
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

Constructed GaussianNLLLoss::construct() {
  if (!(eps > 0))
    fail<ValueError>("GaussianNLLLoss",
                     {.what = "eps must be positive", .got = str(eps), .expected = "eps > 0"});
  return {};
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
  const Tensor as_least = variance - variance.detach() + eps;
  const Tensor v = where(lt(variance, eps), as_least, variance);
  // Divided before it is squared: the square may leave the range although the quotient does not.
  const Tensor error = (x.to(inside) - target.to(inside)) / sqrt(v);
  Tensor loss = (log(v) + error * error) * 0.5;
  if (full) loss = loss + 0.5 * std::log(2 * std::acos(-1.0));
  return reduced(loss, reduction).to(result);
}

}  // namespace mezzo::nn
