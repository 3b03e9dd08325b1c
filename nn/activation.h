// Activation functions as layers, for Sequential; elsewhere call the functions.
// Sees: model.h.
// Read next: ../autograd/ops/activation.h, ../autograd/ops/softmax.h (formulas, gradients, errors).
#pragma once

#include "../autograd/ops/activation.h"
#include "model.h"

namespace mezzo::nn {

// nn::ReLU{} calls relu(x).
#define MZ_ACTIVATION(Layer)                 \
  class MZ_API Layer : public Model<Layer> { \
   public:                                   \
    Tensor forward(const Tensor& x) const;   \
  };
MZ_ACTIVATION(Hardsigmoid)
MZ_ACTIVATION(Hardswish)
MZ_ACTIVATION(LogSigmoid)
MZ_ACTIVATION(Mish)
MZ_ACTIVATION(ReLU)
MZ_ACTIVATION(ReLU6)
MZ_ACTIVATION(SELU)
MZ_ACTIVATION(Sigmoid)
MZ_ACTIVATION(SiLU)
MZ_ACTIVATION(Softsign)
MZ_ACTIVATION(Tanh)
MZ_ACTIVATION(Tanhshrink)
#undef MZ_ACTIVATION

// The function's options are the layer's: nn::LeakyReLU{{.negative_slope = 0.2}} calls leaky_relu(x, {.negative_slope = 0.2}).
#define MZ_ACTIVATION(Layer, Options)            \
  class MZ_API Layer : public Model<Layer> {     \
   public:                                       \
    explicit Layer(const Options& options = {}); \
    Tensor forward(const Tensor& x) const;       \
                                                 \
   private:                                      \
    Options options_;                            \
  };
MZ_ACTIVATION(CELU, EluOptions)
MZ_ACTIVATION(ELU, EluOptions)
MZ_ACTIVATION(GELU, GeluOptions)
MZ_ACTIVATION(GLU, GluOptions)
MZ_ACTIVATION(Hardshrink, ShrinkOptions)
MZ_ACTIVATION(Hardtanh, HardtanhOptions)
MZ_ACTIVATION(LeakyReLU, LeakyReluOptions)
MZ_ACTIVATION(Softplus, SoftplusOptions)
MZ_ACTIVATION(Softshrink, ShrinkOptions)
#undef MZ_ACTIVATION

// nn::Softmax{1} calls softmax(x, 1).
#define MZ_ACTIVATION(Layer)                 \
  class MZ_API Layer : public Model<Layer> { \
   public:                                   \
    explicit Layer(std::int64_t dim);        \
    Tensor forward(const Tensor& x) const;   \
                                             \
   private:                                  \
    std::int64_t dim_;                       \
  };
MZ_ACTIVATION(LogSoftmax)
MZ_ACTIVATION(Softmax)
MZ_ACTIVATION(Softmin)
#undef MZ_ACTIVATION

}  // namespace mezzo::nn
