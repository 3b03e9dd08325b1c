#include "loss.h"

namespace mezzo::nn {

namespace {

void own(Module& module, const char* name, Tensor& weight) {
  if (weight.defined()) weight = module.add_buffer(name, weight.detach().clone());
}

template <class Options> void own_weights(Module& module, Options& options) {
  if constexpr (requires { options.weight; }) own(module, "weight", options.weight);
  if constexpr (requires { options.pos_weight; }) own(module, "pos_weight", options.pos_weight);
}

}  // namespace

#define MZ_LOSS(Layer, Options, function)                                                    \
  Layer::Layer(const Options& options) : options_(options) { own_weights(*this, options_); } \
  Tensor Layer::forward(const Tensor& x, const Tensor& target) const { return function(x, target, options_); }
MZ_LOSS(BCELoss, BinaryCrossEntropyOptions, binary_cross_entropy)
MZ_LOSS(BCEWithLogitsLoss, BinaryCrossEntropyWithLogitsOptions, binary_cross_entropy_with_logits)
MZ_LOSS(CrossEntropyLoss, CrossEntropyOptions, cross_entropy)
MZ_LOSS(HuberLoss, HuberLossOptions, huber_loss)
MZ_LOSS(KLDivLoss, KlDivOptions, kl_div)
MZ_LOSS(L1Loss, LossOptions, l1_loss)
MZ_LOSS(MSELoss, LossOptions, mse_loss)
MZ_LOSS(NLLLoss, NllLossOptions, nll_loss)
MZ_LOSS(SmoothL1Loss, SmoothL1LossOptions, smooth_l1_loss)
#undef MZ_LOSS

}  // namespace mezzo::nn
