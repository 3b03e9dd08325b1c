// Losses as modules: each holds the options of the function it calls.
// Sees: model.h.
// Read next: ../autograd/ops/loss.h (formulas, gradients, errors).
#pragma once

#include "../autograd/ops/loss.h"
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
MZ_LOSS(HuberLoss, HuberLossOptions)
MZ_LOSS(KLDivLoss, KlDivOptions)
MZ_LOSS(L1Loss, LossOptions)
MZ_LOSS(MSELoss, LossOptions)
MZ_LOSS(NLLLoss, NllLossOptions)
MZ_LOSS(SmoothL1Loss, SmoothL1LossOptions)
#undef MZ_LOSS

}  // namespace mezzo::nn
