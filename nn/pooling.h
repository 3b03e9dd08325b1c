// Pooling and unpooling layers. See also: tensor/ops/pool/pool.h and tensor/ops/pool/unpool.h
// (shapes, gradients, errors).
#pragma once

#include "../tensor/ops/pool/pool.h"
#include "../tensor/ops/pool/unpool.h"
#include "model.h"

namespace mezzo::nn {

// nn::MaxPool2d{2} calls max_pool2d(x, 2).
#define MZ_POOL_LAYER(Layer, Options)                                       \
  /** The pooling of that name as a layer. */                               \
  class MZ_API Layer : public Model<Layer> {                                \
   public:                                                                  \
    /** Keeps the arguments for forward(). */                               \
    explicit Layer(const WindowSizes& kernel, const Options& options = {}); \
    /** Calls the function. Errors: as the function. */                     \
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
#define MZ_ADAPTIVE_POOL_LAYER(Layer)                   \
  /** The pooling of that name as a layer. */           \
  class MZ_API Layer : public Model<Layer> {            \
   public:                                              \
    /** Keeps the arguments for forward(). */           \
    explicit Layer(const WindowSizes& output);          \
    /** Calls the function. Errors: as the function. */ \
    Tensor forward(const Tensor& x) const;              \
                                                        \
   private:                                             \
    WindowSizes output_;                                \
  };
MZ_ADAPTIVE_POOL_LAYER(AdaptiveAvgPool1d)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveAvgPool2d)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveAvgPool3d)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveMaxPool1d)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveMaxPool2d)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveMaxPool3d)
#undef MZ_ADAPTIVE_POOL_LAYER

// nn::LPPool2d{2, 3} calls lp_pool2d(x, 2, 3), the 2-norm of windows of 3 by 3.
#define MZ_LP_POOL_LAYER(Layer)                                                            \
  /** The pooling of that name as a layer. */                                              \
  class MZ_API Layer : public Model<Layer> {                                               \
   public:                                                                                 \
    /** Keeps the arguments for forward(). */                                              \
    Layer(double norm_type, const WindowSizes& kernel, const LpPoolOptions& options = {}); \
    /** Calls the function. Errors: as the function. */                                    \
    Tensor forward(const Tensor& x) const;                                                 \
                                                                                           \
   private:                                                                                \
    double norm_type_;                                                                     \
    WindowSizes kernel_;                                                                   \
    LpPoolOptions options_;                                                                \
  };
MZ_LP_POOL_LAYER(LPPool1d)
MZ_LP_POOL_LAYER(LPPool2d)
MZ_LP_POOL_LAYER(LPPool3d)
#undef MZ_LP_POOL_LAYER

// nn::MaxUnpool2d{2} calls max_unpool2d(x, indices, 2).
#define MZ_UNPOOL_LAYER(Layer)                                                       \
  /** The pooling of that name as a layer. */                                        \
  class MZ_API Layer : public Model<Layer> {                                         \
   public:                                                                           \
    /** Keeps the arguments for forward(). */                                        \
    explicit Layer(const WindowSizes& kernel, const MaxUnpoolOptions& options = {}); \
    /** Calls the function. Errors: as the function. */                              \
    Tensor forward(const Tensor& x, const Tensor& indices) const;                    \
                                                                                     \
   private:                                                                          \
    WindowSizes kernel_;                                                             \
    MaxUnpoolOptions options_;                                                       \
  };
MZ_UNPOOL_LAYER(MaxUnpool1d)
MZ_UNPOOL_LAYER(MaxUnpool2d)
MZ_UNPOOL_LAYER(MaxUnpool3d)
#undef MZ_UNPOOL_LAYER

}  // namespace mezzo::nn
