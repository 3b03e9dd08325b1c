// Elementwise activation functions of neural networks. Parsed by g++ and by nvcc.
#pragma once

#include "formula.h"

namespace mezzo::op {

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
/** The ops of one tensor without attributes: autograd/ops/activation.cpp defines function(x) and
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
