// Pooling layers.
// Sees: model.h.
// Read next: ../autograd/ops/pool.h (shapes, gradients, errors).
#pragma once

#include "../autograd/ops/pool.h"
#include "model.h"

namespace mezzo::nn {

// Each class holds the arguments of the function it calls: nn::MaxPool2d{2} calls max_pool2d(x, 2).
#define MZ_POOL_LAYER(Layer, Options)                                       \
  class MZ_API Layer : public Model<Layer> {                                \
   public:                                                                  \
    explicit Layer(const WindowSizes& kernel, const Options& options = {}); \
    Tensor forward(const Tensor& x) const;                                  \
                                                                            \
   private:                                                                 \
    WindowSizes kernel_;                                                    \
    Options options_;                                                       \
  };
MZ_POOL_LAYER(AvgPool1d, AvgPoolOptions)
MZ_POOL_LAYER(AvgPool2d, AvgPoolOptions)
MZ_POOL_LAYER(AvgPool3d, AvgPoolOptions)
MZ_POOL_LAYER(MaxPool1d, MaxPoolOptions)
MZ_POOL_LAYER(MaxPool2d, MaxPoolOptions)
MZ_POOL_LAYER(MaxPool3d, MaxPoolOptions)
#undef MZ_POOL_LAYER

// nn::AdaptiveAvgPool2d{1} calls adaptive_avg_pool2d(x, 1).
#define MZ_ADAPTIVE_POOL_LAYER(Layer)          \
  class MZ_API Layer : public Model<Layer> {   \
   public:                                     \
    explicit Layer(const WindowSizes& output); \
    Tensor forward(const Tensor& x) const;     \
                                               \
   private:                                    \
    WindowSizes output_;                       \
  };
MZ_ADAPTIVE_POOL_LAYER(AdaptiveAvgPool1d)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveAvgPool2d)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveAvgPool3d)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveMaxPool1d)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveMaxPool2d)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveMaxPool3d)
#undef MZ_ADAPTIVE_POOL_LAYER

}  // namespace mezzo::nn
