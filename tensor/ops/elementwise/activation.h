// Activation functions. pointwise.h says what elementwise functions have in common: shapes, integer
// inputs, in-place forms. Precision: match, except for softplus (f32).
#pragma once

#include "../../core/tensor.h"
#include "formula.h"

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

namespace mezzo::op {

// Parsed by g++ and by nvcc.

/** Returns the traits of an activation. Its gradient is computed from `needs`, by default the
 *  input. */
constexpr OpTraits activation(std::string_view name, std::string_view summary,
                              Needs needs = input(0)) {
  return unary(name, Precision::match, summary, needs);
}

/** Returns the traits of an activation that keeps integers as integers. */
constexpr OpTraits integer_activation(std::string_view name, std::string_view summary,
                                      Needs needs) {
  OpTraits traits = activation(name, summary, needs);
  traits.integers = Integers::keep;
  return traits;
}

/** Returns x if it is negative or nan, else 0: a safe argument for an exponential. */
template <class V> MZ_HD V negative_part(const V& x) { return select(x > 0, num<V>(0), x); }

struct Celu {
  static constexpr OpTraits traits = activation("celu", "x > 0 ? x : alpha * expm1(x / alpha)");
  struct Attrs {
    double alpha = 1;
  };
  static void check(Inputs in, const Attrs& attrs);
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    const V alpha = num<V>(attrs.alpha);
    return select(x > 0, x, alpha * expm1(x / alpha));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    return select(x > 0, g, g * exp(V(negative_part(x) / num<V>(attrs.alpha))));
  }
};

struct Elu {
  static constexpr OpTraits traits = activation("elu", "x > 0 ? x : alpha * expm1(x)");
  struct Attrs {
    double alpha = 1;
  };
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    return select(x > 0, x, num<V>(attrs.alpha) * expm1(x));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    return select(x > 0, g, g * (num<V>(attrs.alpha) * exp(negative_part(x))));
  }
};

struct Gelu {
  static constexpr OpTraits traits = activation("gelu", "x * Phi(x), or its tanh form");
  enum class Form : std::uint8_t { exact, tanh };
  struct Attrs {
    Form form = Form::exact;
  };
  static constexpr Form forms[] = {Form::exact, Form::tanh};
  static constexpr double kSqrtHalf = 0.70710678118654752440, kDensity = 0.39894228040143267794;
  static constexpr double kSlope = 1.59576912160573071176, kCubic = 0.044715;  // 2 sqrt(2 / pi)

  // (1 + tanh(u)) / 2 equals sigmoid(2 u), which stays accurate where tanh(u) is near -1.
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    if (attrs.form == Form::tanh)
      return x * sigmoid(num<V>(kSlope) * (x + num<V>(kCubic) * (x * x * x)));
    return x * gaussian(x).below;
  }
  static constexpr for_bf16::Range bf16_range = for_bf16::kAboveNormalTail;
  MZ_HD static float forward_bf16(float x, const Attrs& attrs) {
    return attrs.form == Form::tanh ? for_bf16::gelu_tanh(x) : for_bf16::gelu(x);
  }
  static constexpr for_bf16::Range f16_range = for_f16::kAboveNegativeInfinity;
  MZ_HD static float forward_f16(float x, const Attrs& attrs) {
    return attrs.form == Form::tanh ? forward(x, attrs) : for_f16::gelu(x);
  }
  /** Returns the derivative of the tanh form at x <= 0, where sigmoid(u) and its derivatives are
   *  accurate. At -24 all of them are 0, in f64 too; below it, powers of x would overflow. */
  template <class V> MZ_HD static V left_slope(const V& any) {
    const V x = select(any < -24, num<V>(-24), any), square = x * x;
    const V s = sigmoid(V(num<V>(kSlope) * (x + num<V>(kCubic) * (square * x))));
    return s + x * s * (1 - s) * (num<V>(kSlope) * (1 + num<V>(3 * kCubic) * square));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    if (attrs.form == Form::tanh) {
      // The slopes at x and -x add up to 1.
      const V left = left_slope(V(select(x > 0, V(-x), x)));
      return g * select(x > 0, V(1 - left), left);
    }
    if constexpr (Scalar<V>) {
      const Gaussian<V> here = gaussian(x);
      return g * (here.below + x * (num<V>(kDensity) * here.bell));
    } else {
      const V b = bounded(x, 40), below = num<V>(0.5) * erfc(V(b * num<V>(-kSqrtHalf)));
      return g * (below + b * (num<V>(kDensity) * exp(V(num<V>(-0.5) * b * b))));
    }
  }
};

/** The elementwise part of glu: operands are the two halves. */
struct GluGate {
  static constexpr OpTraits traits{.name = "glu_gate",
                                   .precision = Precision::match,
                                   .summary = "a * sigmoid(b)",
                                   .inputs = 2,
                                   .needs = {input(1), input(0) | input(1)},
                                   .internal = true};
  template <class V> MZ_HD static V forward(const V& a, const V& b) { return a * sigmoid(b); }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& a, const V& b) {
    const V s = sigmoid(b);
    if constexpr (I == 0)
      return g * s;
    else
      return g * a * s * (1 - s);
  }
};

struct Hardshrink {
  static constexpr OpTraits traits = activation("hardshrink", "abs(x) > lambda ? x : 0");
  struct Attrs {
    double lambda = 0.5;
  };
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    const auto low = num<V>(-attrs.lambda), high = num<V>(attrs.lambda);
    return select((x >= low) & (x <= high), V(0), x);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    const auto low = num<V>(-attrs.lambda), high = num<V>(attrs.lambda);
    return select((x >= low) & (x <= high), num<V>(0), g);
  }
};

struct Hardsigmoid {
  static constexpr OpTraits traits = activation("hardsigmoid", "clamp(x / 6 + 1/2, 0, 1)");
  template <class V> MZ_HD static V forward(const V& x) {
    const V ramp = x / 6 + num<V>(0.5);
    return select(x <= -3, V(0), select(x >= 3, V(1), ramp));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return select((x > -3) & (x < 3), V(g / 6), 0);
  }
};

struct Hardswish {
  static constexpr OpTraits traits = activation("hardswish", "x * hardsigmoid(x)");
  template <class V> MZ_HD static V forward(const V& x) {
    return select(x <= -3, V(0), select(x >= 3, x, x * (x / 6 + num<V>(0.5))));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return select(x <= -3, num<V>(0), select(x >= 3, g, g * (x / 3 + num<V>(0.5))));
  }
};

struct Hardtanh {
  static constexpr OpTraits traits =
      activation("hardtanh", "x limited to [low, high]; gradient 0 at the limits");
  struct Attrs {
    double low = -1, high = 1;
  };
  static void check(Inputs in, const Attrs& attrs);
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    const V low = num<V>(attrs.low), high = num<V>(attrs.high);
    const V raised = select(x < low, low, x);
    return select(raised > high, high, raised);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    const auto low = num<V>(attrs.low), high = num<V>(attrs.high);
    return select((x <= low) | (x >= high), num<V>(0), g);  // nan passes, as in PyTorch
  }
};

struct LeakyRelu {
  static constexpr OpTraits traits = activation("leaky_relu", "x > 0 ? x : slope * x");
  struct Attrs {
    double slope = 0.01;
  };
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    return select(x > 0, x, num<V>(attrs.slope) * x);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    return select(x > 0, g, num<V>(attrs.slope) * g);
  }
};

struct Logsigmoid {
  static constexpr OpTraits traits = activation("logsigmoid", "logarithm of sigmoid(x)");
  template <class V> MZ_HD static V forward(const V& x) {
    return select(x > 0, V(0), x) - log1p(exp(select(x > 0, -x, x)));
  }
  template <class V> MZ_HD static V derivative(const V& x, const V&) { return sigmoid(V(-x)); }
};

struct Mish {
  static constexpr OpTraits traits = activation("mish", "x * tanh(softplus(x))");
  /** Returns w = e^x (e^x + 2); tanh(softplus(x)) is w / (w + 2). From x = 20 on that rounds to
   *  1. */
  template <class V> MZ_HD static V odds(const V& x) {
    const V e = exp(select(x > 20, num<V>(20), x));
    return e * (e + 2);
  }
  template <class V> MZ_HD static V forward(const V& x) {
    const V w = odds(x);
    return x * (w / (w + 2));
  }
  template <class V> MZ_HD static V derivative(const V& any, const V&) {
    const V x = bounded(V(select(any > 20, num<V>(20), any)), 800), w = odds(x), t = w / (w + 2);
    return t + x * sigmoid(x) * (1 + t) * (2 / (w + 2));
  }
};

/** The elementwise part of prelu: the weight already broadcasts to x. */
struct PreluGate {
  static constexpr OpTraits traits{.name = "prelu_gate",
                                   .precision = Precision::match,
                                   .summary = "x > 0 ? x : w * x",
                                   .inputs = 2,
                                   .needs = {input(0) | input(1), input(0)},
                                   .internal = true};
  template <class V> MZ_HD static V forward(const V& x, const V& w) {
    return select(x > 0, x, w * x);
  }
  template <int I, class V> MZ_HD static V gradient(const V& g, const V& x, const V& w) {
    if constexpr (I == 0)
      return select(x > 0, g, g * w);
    else
      return select(x > 0, num<V>(0), g * x);
  }
};

struct Relu {
  static constexpr OpTraits traits = integer_activation("relu", "max(x, 0)", output(0));
  template <class V> MZ_HD static V forward(const V& x) { return select(x <= V(0), V(0), x); }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V& y) {
    return select(y <= 0, num<V>(0), g);  // nan passes, as in PyTorch
  }
};

struct Relu6 {
  static constexpr OpTraits traits = integer_activation("relu6", "x limited to [0, 6]", output(0));
  template <class V> MZ_HD static V forward(const V& x) {
    return select(x <= V(0), V(0), select(x > V(6), V(6), x));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V&, const V& y) {
    return select((y <= 0) | (y >= 6), num<V>(0), g);  // nan passes, as in PyTorch
  }
};

struct Selu {
  static constexpr OpTraits traits =
      activation("selu", "scaled elu that keeps mean 0 and variance 1");
  static constexpr double kLambda = 1.0507009873554805, kAlpha = 1.6732632423543772;
  template <class V> MZ_HD static V forward(const V& x) {
    return select(x > 0, num<V>(kLambda) * x, num<V>(kLambda * kAlpha) * expm1(x));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return select(x > 0, V(num<V>(kLambda) * g),
                  g * (num<V>(kLambda * kAlpha) * exp(negative_part(x))));
  }
};

struct Sigmoid {
  static constexpr OpTraits traits = activation("sigmoid", "1 / (1 + exp(-x))", output(0));
  template <class V> MZ_HD static V forward(const V& x) { return sigmoid(x); }
  static bool is_short(float x) { return has_normal_exp(x); }
  static float forward_short(float x) { return sigmoid_normal(x); }
  static constexpr for_bf16::Range bf16_range = for_bf16::kNormalExp;
  MZ_HD static float forward_bf16(float x) { return for_bf16::sigmoid(x); }
  template <class V> MZ_HD static V derivative(const V&, const V& y) { return y * (1 - y); }
};

struct Silu {
  static constexpr OpTraits traits = activation("silu", "x * sigmoid(x)");
  template <class V> MZ_HD static V forward(const V& x) { return x * sigmoid(x); }
  static bool is_short(float x) { return has_normal_exp(x); }
  static float forward_short(float x) { return x * sigmoid_normal(x); }
  static constexpr for_bf16::Range bf16_range = for_bf16::kNormalExp;
  MZ_HD static float forward_bf16(float x) { return for_bf16::silu(x); }
  static float gradient_short(float g, float x, float) {
    const float s = sigmoid_normal(x);
    return g * (s * (1 + x * (1 - s)));
  }
  template <class V> MZ_HD static V derivative(const V& x, const V&) {
    const V b = bounded(x, 800), s = sigmoid(b);
    return s * (1 + b * (1 - s));
  }
};

struct Softplus {
  static constexpr OpTraits traits{.name = "softplus",
                                   .precision = Precision::f32,
                                   .summary = "log(1 + exp(beta x)) / beta",
                                   .needs = {input(0)}};
  struct Attrs {
    double beta = 1, threshold = 20;
  };
  static void check(Inputs in, const Attrs& attrs);
  /** Returns the z above which the function is x: from 40 on it rounds to x, and e^z may overflow.
   */
  MZ_HD static double linear_above(const Attrs& attrs) {
    return attrs.threshold < 40 ? attrs.threshold : 40;
  }
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    const V beta = num<V>(attrs.beta), z = x * beta;
    return select(z > num<V>(linear_above(attrs)), x, log1p(exp(z)) / beta);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    const V z = x * num<V>(attrs.beta);
    return select(z > num<V>(linear_above(attrs)), g, g * sigmoid(z));
  }
};

struct Softshrink {
  static constexpr OpTraits traits =
      activation("softshrink", "x moved towards 0 by lambda, 0 where abs(x) <= lambda");
  struct Attrs {
    double lambda = 0.5;
  };
  static void check(Inputs in, const Attrs& attrs);
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    const V lambda = num<V>(attrs.lambda);
    return select((x >= -lambda) & (x <= lambda), V(0), select(x > 0, x - lambda, x + lambda));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    const auto low = num<V>(-attrs.lambda), high = num<V>(attrs.lambda);
    return select((x >= low) & (x <= high), num<V>(0), g);
  }
};

struct Softsign {
  static constexpr OpTraits traits = activation("softsign", "x / (1 + abs(x))");
  template <class V> MZ_HD static V forward(const V& x) { return x / (1 + select(x < 0, -x, x)); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    const V size = 1 + select(x < 0, V(-x), x);
    return g / (size * size);
  }
};

struct Tanh {
  static constexpr OpTraits traits = activation("tanh", "hyperbolic tangent", output(0));
  template <class V> MZ_HD static V forward(const V& x) { return tanh(x); }
  static constexpr for_bf16::Range bf16_range = for_bf16::kAll;
  MZ_HD static float forward_bf16(float x) { return for_bf16::tanh(x); }
  template <class V> MZ_HD static V derivative(const V&, const V& y) { return 1 - y * y; }
};

struct Tanhshrink {
  static constexpr OpTraits traits = activation("tanhshrink", "x - tanh(x)");
  template <class V> MZ_HD static V forward(const V& x) { return x - tanh(x); }
  template <class V> MZ_HD static V derivative(const V& x, const V&) {
    const V t = tanh(x);
    return t * t;
  }
};

struct Threshold {
  static constexpr OpTraits traits = activation("threshold", "x > threshold ? x : value");
  struct Attrs {
    double threshold = 0, value = 0;
  };
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    return select(x <= num<V>(attrs.threshold), num<V>(attrs.value), x);
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    return select(x <= num<V>(attrs.threshold), num<V>(0), g);  // nan passes, as in PyTorch
  }
};

// clang-format off
/** The ops of one tensor without attributes: tensor/ops/elementwise/activation.cpp defines function(x) and
 *  function_(x) of each. */
#define MZ_ACTIVATIONS(of)                                                                        \
  of(hardsigmoid, Hardsigmoid) of(hardswish, Hardswish) of(logsigmoid, Logsigmoid) of(mish, Mish) \
  of(relu, Relu) of(relu6, Relu6) of(selu, Selu) of(sigmoid, Sigmoid) of(silu, Silu)              \
  of(softsign, Softsign) of(tanh, Tanh) of(tanhshrink, Tanhshrink)
// clang-format on

using ActivationOps = Extended<type_list<Celu, Elu, Gelu, GluGate, Hardshrink, Hardtanh, LeakyRelu,
                                         PreluGate, Softplus, Softshrink, Threshold>
                                   MZ_ACTIVATIONS(MZ_NEXT_TYPE)>::type;

}  // namespace mezzo::op
