// Activation functions. Shape, integers and in-place forms: see pointwise.h. Precision: follows the input, except softplus (full) and prelu (low).
// Sees: tensor.
// Read next: ../../tensor/elementwise/activation.h (the formulas).
#pragma once

#include "../../tensor/tensor.h"

namespace mezzo {

struct EluOptions {
  double alpha = 1;  // the value at -infinity is -alpha
};

enum class GeluApproximation : std::uint8_t { none, tanh };

struct GeluOptions {
  GeluApproximation approximate = GeluApproximation::none;
};

struct GluOptions {
  std::int64_t dim = -1;
};

struct HardtanhOptions {
  double min = -1, max = 1;
};

struct LeakyReluOptions {
  double negative_slope = 0.01;
};

struct ShrinkOptions {
  double lambda = 0.5;
};

struct SoftplusOptions {
  double beta = 1;
  double threshold = 20;  // beta * x beyond which the function is x itself
};

/** x > 0 ? x : alpha expm1(x / alpha). Gradient: 1, or exp(x / alpha). Errors: ValueError for alpha = 0.
 *  Source: Barron, Continuously differentiable exponential linear units (2017). */
MZ_API Tensor celu(const Tensor& x, const EluOptions& options = {});
/** x > 0 ? x : alpha expm1(x). Gradient: 1, or alpha exp(x).
 *  Source: Clevert, Unterthiner, Hochreiter, Fast and accurate deep network learning by ELUs (2016). */
MZ_API Tensor elu(const Tensor& x, const EluOptions& options = {});
/** x Phi(x), Phi the standard normal distribution; or its tanh form x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
 *  Gradient: Phi(x) + x phi(x), or that of the tanh form. Source: Hendrycks, Gimpel, Gaussian error linear units (2016). */
MZ_API Tensor gelu(const Tensor& x, const GeluOptions& options = {});
/** a * sigmoid(b) with a, b the halves of x along dim. Shape: dim is halved. Gradient: sigmoid(b), a sigmoid'(b).
 *  Errors: ShapeError when the size is odd, IndexError. Source: Dauphin et al., Language modeling with gated conv nets (2017). */
MZ_API Tensor glu(const Tensor& x, const GluOptions& options = {});
/** abs(x) > lambda ? x : 0, lambda taken in x's dtype. Gradient: 1 where x is kept. */
MZ_API Tensor hardshrink(const Tensor& x, const ShrinkOptions& options = {});
/** x / 6 + 1/2 limited to [0, 1]. Gradient: 1/6 where -3 < x < 3. */
MZ_API Tensor hardsigmoid(const Tensor& x);
/** x * hardsigmoid(x). Gradient: 0 up to -3, 1 from 3 on, x/3 + 1/2 between. */
MZ_API Tensor hardswish(const Tensor& x);
/** x limited to [min, max]. Gradient: 1 where min < x < max, and at nan as in PyTorch.
 *  Errors: ValueError when min > max. */
MZ_API Tensor hardtanh(const Tensor& x, const HardtanhOptions& options = {});
/** x > 0 ? x : negative_slope * x. Gradient: 1 or negative_slope. */
MZ_API Tensor leaky_relu(const Tensor& x, const LeakyReluOptions& options = {});
/** ln(sigmoid(x)) without overflow at either end. Gradient: sigmoid(-x). */
MZ_API Tensor logsigmoid(const Tensor& x);
/** x tanh(softplus(x)). Gradient: by calculus. Source: Misra, Mish: a self regularized activation function (2019). */
MZ_API Tensor mish(const Tensor& x);
/** x > 0 ? x : weight * x. Shape: weight has 1 element, or one per channel (x's dimension 1).
 *  Precision: low.   Gradient: g or weight * g for x; g * x summed over x <= 0 for the weight.
 *  Errors: ShapeError, DtypeError unless both have one floating dtype. Source: He et al., Delving deep into rectifiers (2015). */
MZ_API Tensor prelu(const Tensor& x, const Tensor& weight);
/** max(x, 0); integers stay; nan propagates.
 *  Gradient: 0 where x <= 0, else 1: at nan too, as in PyTorch. */
MZ_API Tensor relu(const Tensor& x);
/** x limited to [0, 6]; integers stay. Gradient: 1 where 0 < x < 6, and at nan as in PyTorch. */
MZ_API Tensor relu6(const Tensor& x);
/** lambda (x > 0 ? x : alpha expm1(x)) with lambda 1.0507..., alpha 1.6732.... Gradient: lambda, or lambda alpha exp(x).
 *  Source: Klambauer et al., Self-normalizing neural networks (2017). */
MZ_API Tensor selu(const Tensor& x);
/** 1 / (1 + exp(-x)). Gradient: y (1 - y). */
MZ_API Tensor sigmoid(const Tensor& x);
/** x sigmoid(x). Gradient: s (1 + x (1 - s)), s = sigmoid(x). */
MZ_API Tensor silu(const Tensor& x);
/** ln(1 + exp(beta x)) / beta, x itself where beta x > threshold. Precision: full. Gradient: sigmoid(beta x), 1 beyond the threshold.
 *  Errors: ValueError for beta = 0. */
MZ_API Tensor softplus(const Tensor& x, const SoftplusOptions& options = {});
/** x moved towards 0 by lambda, 0 where abs(x) <= lambda. Gradient: 1 where not 0. Errors: ValueError for negative lambda. */
MZ_API Tensor softshrink(const Tensor& x, const ShrinkOptions& options = {});
/** x / (1 + abs(x)). Gradient: 1/(1 + abs(x))^2. */
MZ_API Tensor softsign(const Tensor& x);
/** Hyperbolic tangent. Gradient: 1 - tanh(x)^2. */
MZ_API Tensor tanh(const Tensor& x);
/** x - tanh(x). Gradient: tanh(x)^2. */
MZ_API Tensor tanhshrink(const Tensor& x);
/** x <= threshold ? value : x.
 *  Gradient: 0 where x <= threshold, else 1: at nan too, as in PyTorch. */
MZ_API Tensor threshold(const Tensor& x, double threshold, double value);

MZ_API const Tensor& celu_(const Tensor& self, const EluOptions& options = {});
MZ_API const Tensor& elu_(const Tensor& self, const EluOptions& options = {});
MZ_API const Tensor& gelu_(const Tensor& self, const GeluOptions& options = {});
MZ_API const Tensor& hardshrink_(const Tensor& self, const ShrinkOptions& options = {});
MZ_API const Tensor& hardsigmoid_(const Tensor& self);
MZ_API const Tensor& hardswish_(const Tensor& self);
MZ_API const Tensor& hardtanh_(const Tensor& self, const HardtanhOptions& options = {});
MZ_API const Tensor& leaky_relu_(const Tensor& self, const LeakyReluOptions& options = {});
MZ_API const Tensor& logsigmoid_(const Tensor& self);
MZ_API const Tensor& mish_(const Tensor& self);
MZ_API const Tensor& relu_(const Tensor& self);
MZ_API const Tensor& relu6_(const Tensor& self);
MZ_API const Tensor& selu_(const Tensor& self);
MZ_API const Tensor& sigmoid_(const Tensor& self);
MZ_API const Tensor& silu_(const Tensor& self);
MZ_API const Tensor& softshrink_(const Tensor& self, const ShrinkOptions& options = {});
MZ_API const Tensor& softsign_(const Tensor& self);
MZ_API const Tensor& tanh_(const Tensor& self);
MZ_API const Tensor& tanhshrink_(const Tensor& self);
MZ_API const Tensor& threshold_(const Tensor& self, double threshold, double value);

}  // namespace mezzo
