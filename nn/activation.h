// Layers that call the activation functions. See also: tensor/ops/elementwise/activation.h and
// tensor/ops/norm/softmax.h (formulas, gradients, errors).
#pragma once

#include "../tensor/ops/elementwise/activation.h"
#include "../tensor/ops/elementwise/glu.h"
#include "named_options.h"

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

// Activations with options: nn::LeakyReLU{0.2} and nn::LeakyReLU{.negative_slope = 0.2} call
// leaky_relu(x, {.negative_slope = 0.2}).
/** Calls celu(). */
struct MZ_API CELU : NamedOptions<CELU, &EluOptions::alpha> {
  NameTheOthers names = {};               // only the first option may lack its name
  double alpha = given_.alpha;            // as EluOptions::alpha
  Constructed constructed = construct();  // sets the printed text

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x) const;

 private:
  Constructed construct();
};
/** Calls elu(). */
struct MZ_API ELU : NamedOptions<ELU, &EluOptions::alpha> {
  NameTheOthers names = {};               // only the first option may lack its name
  double alpha = given_.alpha;            // as EluOptions::alpha
  Constructed constructed = construct();  // sets the printed text

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x) const;

 private:
  Constructed construct();
};
/** Calls gelu(). */
struct MZ_API GELU : NamedOptions<GELU, &GeluOptions::approximate> {
  NameTheOthers names = {};                            // only the first option may lack its name
  GeluApproximation approximate = given_.approximate;  // as GeluOptions::approximate
  Constructed constructed = construct();               // sets the printed text

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x) const;

 private:
  Constructed construct();
};
/** Calls glu(). */
struct MZ_API GLU : NamedOptions<GLU, &GluOptions::dim> {
  NameTheOthers names = {};               // only the first option may lack its name
  std::int64_t dim = given_.dim;          // as GluOptions::dim
  Constructed constructed = construct();  // sets the printed text

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x) const;

 private:
  Constructed construct();
};
/** Calls hardshrink(). */
struct MZ_API Hardshrink : NamedOptions<Hardshrink, &ShrinkOptions::lambda> {
  NameTheOthers names = {};               // only the first option may lack its name
  double lambda = given_.lambda;          // as ShrinkOptions::lambda
  Constructed constructed = construct();  // sets the printed text

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x) const;

 private:
  Constructed construct();
};
/** Calls hardtanh(). */
struct MZ_API Hardtanh : NamedOptions<Hardtanh, &HardtanhOptions::min> {
  NameTheOthers names = {};               // only the first option may lack its name
  double min = given_.min;                // as HardtanhOptions::min
  double max = given_.max;                // as HardtanhOptions::max
  Constructed constructed = construct();  // sets the printed text

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x) const;

 private:
  Constructed construct();
};
/** Calls leaky_relu(). */
struct MZ_API LeakyReLU : NamedOptions<LeakyReLU, &LeakyReluOptions::negative_slope> {
  NameTheOthers names = {};                       // only the first option may lack its name
  double negative_slope = given_.negative_slope;  // as LeakyReluOptions::negative_slope
  Constructed constructed = construct();          // sets the printed text

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x) const;

 private:
  Constructed construct();
};
/** Calls softplus(). */
struct MZ_API Softplus : NamedOptions<Softplus, &SoftplusOptions::beta> {
  NameTheOthers names = {};               // only the first option may lack its name
  double beta = given_.beta;              // as SoftplusOptions::beta
  double threshold = given_.threshold;    // as SoftplusOptions::threshold
  Constructed constructed = construct();  // sets the printed text

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x) const;

 private:
  Constructed construct();
};
/** Calls softshrink(). */
struct MZ_API Softshrink : NamedOptions<Softshrink, &ShrinkOptions::lambda> {
  NameTheOthers names = {};               // only the first option may lack its name
  double lambda = given_.lambda;          // as ShrinkOptions::lambda
  Constructed constructed = construct();  // sets the printed text

  /** Calls the function. Errors: as the function. */
  Tensor forward(const Tensor& x) const;

 private:
  Constructed construct();
};

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
struct MZ_API PReLU : NamedOptions<PReLU, &PReluOptions::num_parameters> {
  NameTheOthers names = {};                             // only the first option may lack its name
  std::int64_t num_parameters = given_.num_parameters;  // as PReluOptions::num_parameters
  double init = given_.init;                            // as PReluOptions::init
  Constructed constructed = construct();                // registers the slopes

  /** Returns prelu(x, weight()). */
  Tensor forward(const Tensor& x) const;

  /** Returns the slopes, [num_parameters]. */
  const Tensor& weight() const { return own_parameters()[0].tensor; }

 private:
  Constructed construct();
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
struct MZ_API RReLU : NamedOptions<RReLU, &RReluOptions::lower> {
  NameTheOthers names = {};               // only the first option may lack its name
  double lower = given_.lower;            // as RReluOptions::lower
  double upper = given_.upper;            // as RReluOptions::upper
  Constructed constructed = construct();  // checks the bounds

  /** Returns a tensor of x's shape. Draws new slopes on every call in training mode. */
  Tensor forward(const Tensor& x) const;

 private:
  Constructed construct();
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
