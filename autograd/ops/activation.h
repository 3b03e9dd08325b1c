// Activation functions. pointwise.h says what elementwise functions have in common: shapes, integer
// inputs, in-place forms. Precision: match, except for softplus (f32) and prelu (low).
#pragma once

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** Options of celu and elu. */
struct EluOptions {
  double alpha = 1;  // the limit at -infinity is -alpha
};

/** The form of gelu: exact (none), or the tanh approximation. */
enum class GeluApproximation : std::uint8_t { none, tanh };

/** Options of gelu. */
struct GeluOptions {
  GeluApproximation approximate = GeluApproximation::none;  // exact, or the tanh form
};

/** Options of glu. */
struct GluOptions {
  std::int64_t dim = -1;  // the dimension to split in halves
};

/** Options of hardtanh. In PyTorch they are named min_val and max_val. */
struct HardtanhOptions {
  double min = -1,  // lower limit of the result
      max = 1;      // upper limit; not less than min
};

/** Options of leaky_relu. */
struct LeakyReluOptions {
  double negative_slope = 0.01;  // factor for x <= 0
};

/** Options of hardshrink and softshrink. In PyTorch the field is named lambd. */
struct ShrinkOptions {
  double lambda = 0.5;  // the threshold
};

/** Options of softplus. */
struct SoftplusOptions {
  double beta = 1;        // factor of x
  double threshold = 20;  // the function is x itself where beta * x is greater
};

/** Returns x > 0 ? x : alpha expm1(x / alpha).
 *  Gradient: 1 for x > 0, else exp(x / alpha).
 *  Errors: ValueError for alpha = 0.
 *  Source: Barron, Continuously differentiable exponential linear units (2017). */
MZ_API Tensor celu(const Tensor& x, const EluOptions& options = {});
/** Returns x > 0 ? x : alpha expm1(x).
 *  Gradient: 1 for x > 0, else alpha exp(x).
 *  Source: Clevert, Unterthiner, Hochreiter, Fast and accurate deep network learning by ELUs
 *  (2016). */
MZ_API Tensor elu(const Tensor& x, const EluOptions& options = {});
/** Returns x Phi(x), where Phi is the standard normal distribution, or the tanh form x/2 (1 +
 *  tanh(sqrt(2/pi) (x + 0.044715 x^3))).
 *  Gradient: Phi(x) + x phi(x), or the derivative of the tanh form.
 *  Source: Hendrycks, Gimpel, Gaussian error linear units (2016). */
MZ_API Tensor gelu(const Tensor& x, const GeluOptions& options = {});
/** Returns a * sigmoid(b), where a and b are the halves of x along dim.
 *  Shape: x's, with half its size along dim.
 *  Gradient: sigmoid(b) for a, a sigmoid'(b) for b.
 *  Errors: ShapeError when the size is odd, IndexError.
 *  Source: Dauphin et al., Language modeling with gated conv nets (2017). */
MZ_API Tensor glu(const Tensor& x, const GluOptions& options = {});
/** Returns abs(x) > lambda ? x : 0; lambda is rounded to x's dtype.
 *  Gradient: 1 where x is kept, else 0. */
MZ_API Tensor hardshrink(const Tensor& x, const ShrinkOptions& options = {});
/** Returns x / 6 + 1/2 clamped to [0, 1].
 *  Gradient: 1/6 where -3 < x < 3, else 0. */
MZ_API Tensor hardsigmoid(const Tensor& x);
/** Returns x * hardsigmoid(x).
 *  Gradient: 0 up to -3, 1 from 3 on, x/3 + 1/2 between. */
MZ_API Tensor hardswish(const Tensor& x);
/** Returns x clamped to [min, max].
 *  Gradient: 1 where min < x < max and, as in PyTorch, at nan.
 *  Errors: ValueError when min > max. */
MZ_API Tensor hardtanh(const Tensor& x, const HardtanhOptions& options = {});
/** Returns x > 0 ? x : negative_slope * x.
 *  Gradient: 1 for x > 0, else negative_slope. */
MZ_API Tensor leaky_relu(const Tensor& x, const LeakyReluOptions& options = {});
/** Returns ln(sigmoid(x)), computed without overflow for any x.
 *  Gradient: sigmoid(-x). */
MZ_API Tensor logsigmoid(const Tensor& x);
/** Returns x tanh(softplus(x)).
 *  Gradient: the derivative.
 *  Source: Misra, Mish: a self regularized activation function (2019). */
MZ_API Tensor mish(const Tensor& x);
/** Returns x > 0 ? x : weight * x.
 *  Shape: x's. weight has 1 element, or one per channel (dimension 1 of x).
 *  Precision: low.
 *  Gradient: for x, g where x > 0, else weight * g; for weight, g * x summed over x <= 0.
 *  Errors: ShapeError; DtypeError unless both have one floating-point dtype.
 *  Source: He et al., Delving deep into rectifiers (2015). */
MZ_API Tensor prelu(const Tensor& x, const Tensor& weight);
/** Returns max(x, 0); nan propagates. Integers stay integers.
 *  Gradient: 0 where x <= 0, else 1. As in PyTorch it is 1 at nan. */
MZ_API Tensor relu(const Tensor& x);
/** Returns x clamped to [0, 6]. Integers stay integers.
 *  Gradient: 1 where 0 < x < 6 and, as in PyTorch, at nan. */
MZ_API Tensor relu6(const Tensor& x);
/** Returns lambda (x > 0 ? x : alpha expm1(x)) with lambda = 1.0507... and alpha = 1.6732....
 *  Gradient: lambda for x > 0, else lambda alpha exp(x).
 *  Source: Klambauer et al., Self-normalizing neural networks (2017). */
MZ_API Tensor selu(const Tensor& x);
/** Returns 1 / (1 + exp(-x)).
 *  Gradient: y (1 - y). */
MZ_API Tensor sigmoid(const Tensor& x);
/** Returns x sigmoid(x).
 *  Gradient: s (1 + x (1 - s)) with s = sigmoid(x). */
MZ_API Tensor silu(const Tensor& x);
/** Returns ln(1 + exp(beta x)) / beta, or x itself where beta x > threshold. Unlike in PyTorch, the
 *  exponential does not overflow, whatever the threshold.
 *  Precision: f32.
 *  Gradient: sigmoid(beta x), or 1 beyond the threshold.
 *  Errors: ValueError for beta = 0. */
MZ_API Tensor softplus(const Tensor& x, const SoftplusOptions& options = {});
/** Returns x moved towards 0 by lambda, or 0 where abs(x) <= lambda.
 *  Gradient: 1 where the result is not 0, else 0.
 *  Errors: ValueError for a negative lambda. */
MZ_API Tensor softshrink(const Tensor& x, const ShrinkOptions& options = {});
/** Returns x / (1 + abs(x)).
 *  Gradient: 1/(1 + abs(x))^2. */
MZ_API Tensor softsign(const Tensor& x);
/** Returns the hyperbolic tangent.
 *  Gradient: 1 - tanh(x)^2. */
MZ_API Tensor tanh(const Tensor& x);
/** Returns x - tanh(x).
 *  Gradient: tanh(x)^2. */
MZ_API Tensor tanhshrink(const Tensor& x);
/** Returns x <= threshold ? value : x, where the value is rounded once to x's dtype.
 *  Gradient: 0 where x <= threshold, else 1. As in PyTorch it is 1 at nan. */
MZ_API Tensor threshold(const Tensor& x, double threshold, double value);

// In-place forms.
/** Overwrites self with celu(self, options) and returns it. */
MZ_API const Tensor& celu_(const Tensor& self, const EluOptions& options = {});
/** Overwrites self with elu(self, options) and returns it. */
MZ_API const Tensor& elu_(const Tensor& self, const EluOptions& options = {});
/** Overwrites self with gelu(self, options) and returns it. */
MZ_API const Tensor& gelu_(const Tensor& self, const GeluOptions& options = {});
/** Overwrites self with hardshrink(self, options) and returns it. */
MZ_API const Tensor& hardshrink_(const Tensor& self, const ShrinkOptions& options = {});
/** Overwrites self with hardsigmoid(self) and returns it. */
MZ_API const Tensor& hardsigmoid_(const Tensor& self);
/** Overwrites self with hardswish(self) and returns it. */
MZ_API const Tensor& hardswish_(const Tensor& self);
/** Overwrites self with hardtanh(self, options) and returns it. */
MZ_API const Tensor& hardtanh_(const Tensor& self, const HardtanhOptions& options = {});
/** Overwrites self with leaky_relu(self, options) and returns it. */
MZ_API const Tensor& leaky_relu_(const Tensor& self, const LeakyReluOptions& options = {});
/** Overwrites self with logsigmoid(self) and returns it. */
MZ_API const Tensor& logsigmoid_(const Tensor& self);
/** Overwrites self with mish(self) and returns it. */
MZ_API const Tensor& mish_(const Tensor& self);
/** Overwrites self with relu(self) and returns it. */
MZ_API const Tensor& relu_(const Tensor& self);
/** Overwrites self with relu6(self) and returns it. */
MZ_API const Tensor& relu6_(const Tensor& self);
/** Overwrites self with selu(self) and returns it. */
MZ_API const Tensor& selu_(const Tensor& self);
/** Overwrites self with sigmoid(self) and returns it. */
MZ_API const Tensor& sigmoid_(const Tensor& self);
/** Overwrites self with silu(self) and returns it. */
MZ_API const Tensor& silu_(const Tensor& self);
/** Overwrites self with softshrink(self, options) and returns it. */
MZ_API const Tensor& softshrink_(const Tensor& self, const ShrinkOptions& options = {});
/** Overwrites self with softsign(self) and returns it. */
MZ_API const Tensor& softsign_(const Tensor& self);
/** Overwrites self with tanh(self) and returns it. */
MZ_API const Tensor& tanh_(const Tensor& self);
/** Overwrites self with tanhshrink(self) and returns it. */
MZ_API const Tensor& tanhshrink_(const Tensor& self);
/** Overwrites self with threshold(self, threshold, value) and returns it. */
MZ_API const Tensor& threshold_(const Tensor& self, double threshold, double value);

}  // namespace mezzo
