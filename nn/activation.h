// Layers that call the activation functions. See also: autograd/ops/activation.h and
// autograd/ops/softmax.h (formulas, gradients, errors).
#pragma once

#include "../autograd/ops/activation.h"
#include "model.h"

namespace mezzo::nn {

// Activations without options: nn::ReLU{} calls relu(x).
#define MZ_ACTIVATION(Layer)                            \
  /** The activation of that name as a layer. */        \
  class MZ_API Layer : public Model<Layer> {            \
   public:                                              \
    /** Calls the function. Errors: as the function. */ \
    Tensor forward(const Tensor& x) const;              \
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

// Activations with options: nn::LeakyReLU{{.negative_slope = 0.2}} calls
// leaky_relu(x, {.negative_slope = 0.2}).
#define MZ_ACTIVATION(Layer, Options)                   \
  /** The activation of that name as a layer. */        \
  class MZ_API Layer : public Model<Layer> {            \
   public:                                              \
    /** Keeps the arguments for forward(). */           \
    explicit Layer(const Options& options = {});        \
    /** Calls the function. Errors: as the function. */ \
    Tensor forward(const Tensor& x) const;              \
                                                        \
   private:                                             \
    Options options_;                                   \
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

// Activations over one dimension: nn::Softmax{1} calls softmax(x, 1).
#define MZ_ACTIVATION(Layer)                            \
  /** The activation of that name as a layer. */        \
  class MZ_API Layer : public Model<Layer> {            \
   public:                                              \
    /** Keeps the arguments for forward(). */           \
    explicit Layer(std::int64_t dim);                   \
    /** Calls the function. Errors: as the function. */ \
    Tensor forward(const Tensor& x) const;              \
                                                        \
   private:                                             \
    std::int64_t dim_;                                  \
  };
MZ_ACTIVATION(LogSoftmax)
MZ_ACTIVATION(Softmax)
MZ_ACTIVATION(Softmin)
#undef MZ_ACTIVATION

/** Options of nn::PReLU. */
struct PReluOptions {
  std::int64_t num_parameters = 1;  // 1 (one slope for all channels) or the number of channels
  double init = 0.25;               // initial slope
};

/** Computes x > 0 ? x : weight * x with trained slopes.
 *  Parameters: weight [num_parameters], filled with `init`.
 *  Precision: low.
 *  Errors: ValueError for num_parameters below 1; calls throw as prelu() does. */
class MZ_API PReLU : public Model<PReLU> {
 public:
  /** Constructs the layer and fills its slopes with `init`. */
  explicit PReLU(const PReluOptions& options = {});
  /** Returns prelu(x, weight()). */
  Tensor forward(const Tensor& x) const;

  /** Returns the slopes, [num_parameters]. */
  const Tensor& weight() const { return weight_; }

 private:
  Tensor weight_;
};

/** Options of nn::RReLU. */
struct RReluOptions {
  /** Lower bound of the random slope. */
  double lower = 1.0 / 8, upper = 1.0 / 3; /**< Upper bound of the random slope. */
};

/** Computes x >= 0 ? x : a * x. In training mode, a is drawn from U(lower, upper) for each
 *  element; in evaluation mode, a is (lower + upper) / 2.
 *  Precision: follows the input.
 *  Gradient: 1 or a.
 *  Errors: ValueError unless lower <= upper.
 *  Source: Xu et al., Empirical evaluation of rectified activations in convolutional network
 *  (2015). */
class MZ_API RReLU : public Model<RReLU> {
 public:
  /** Constructs the layer. Errors: ValueError unless lower <= upper. */
  explicit RReLU(const RReluOptions& options = {});
  /** Returns a tensor of x's shape. Draws new slopes on every call in training mode. */
  Tensor forward(const Tensor& x) const;

 private:
  RReluOptions options_;
};

/** Applies softmax over the channels of each pixel.
 *  Shape: [N,C,H,W] or [C,H,W]; the result has the same shape.
 *  Precision: f32.
 *  Errors: ShapeError for any other rank. */
class MZ_API Softmax2d : public Model<Softmax2d> {
 public:
  /** Returns softmax(x, -3). */
  Tensor forward(const Tensor& x) const;
};

/** Computes x > threshold ? x : value. */
class MZ_API Threshold : public Model<Threshold> {
 public:
  /** Constructs the layer; elements at or below `threshold` become `value`. */
  Threshold(double threshold, double value);
  /** Returns mezzo::threshold(x, threshold, value). */
  Tensor forward(const Tensor& x) const;

 private:
  double threshold_, value_;
};

}  // namespace mezzo::nn
