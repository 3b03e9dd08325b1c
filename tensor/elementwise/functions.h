// Elementwise functions: exponentials, logarithms, trigonometric and error functions. Parsed by g++
// and by nvcc.
#pragma once

#include "formula.h"

namespace mezzo::op {

struct Acos {
  static constexpr OpTraits traits = unary("acos", Precision::f32, "arc cosine", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return acos(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return -g / sqrt((1 - x) * (1 + x));
  }
};

struct Acosh {
  static constexpr OpTraits traits =
      unary("acosh", Precision::match, "area hyperbolic cosine", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return acosh(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    // A product of roots is nan below 1, where the root of the product would be real again.
    return g / (sqrt(x - 1) * sqrt(x + 1));
  }
};

struct Asin {
  static constexpr OpTraits traits = unary("asin", Precision::f32, "arc sine", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return asin(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return g / sqrt((1 - x) * (1 + x));
  }
};

struct Asinh {
  static constexpr OpTraits traits =
      unary("asinh", Precision::match, "area hyperbolic sine", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return asinh(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    // Beyond 1e18 the root is |x|, although the square may leave the range.
    const V size = select(x < 0, V(-x), x), small = select(size > num<V>(1e18), num<V>(0), x);
    return g / select(size > num<V>(1e18), size, V(sqrt(1 + small * small)));
  }
};

struct Atan {
  static constexpr OpTraits traits = unary("atan", Precision::match, "arc tangent", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return atan(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return g / (1 + x * x);
  }
};

struct Atanh {
  static constexpr OpTraits traits =
      unary("atanh", Precision::match, "area hyperbolic tangent", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return atanh(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return g / ((1 - x) * (1 + x));
  }
};

struct Cos {
  static constexpr OpTraits traits = unary("cos", Precision::match, "cosine", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return cos(x); }
  template <class V> MZ_HD static V derivative(const V& x, const V&) { return -sin(x); }
  static bool is_short(float x) { return is_moderate_angle(x); }
  static float forward_short(float x) { return cos_moderate(x); }
  static float gradient_short(float g, float x, float) { return g * -sin_moderate(x); }
};

struct Cosh {
  static constexpr OpTraits traits = unary("cosh", Precision::f32, "hyperbolic cosine", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return cosh(x); }
  template <class V> MZ_HD static V derivative(const V& x, const V&) { return sinh(x); }
};

inline constexpr double kTwoOverSqrtPi = 1.12837916709551257390;

struct Erf {
  static constexpr OpTraits traits = unary("erf", Precision::match, "error function", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return erf(x); }
  template <class V> MZ_HD static V derivative(const V& x, const V&) {
    return num<V>(kTwoOverSqrtPi) * exp(-x * x);
  }
};

struct Erfc {
  static constexpr OpTraits traits =
      unary("erfc", Precision::match, "complementary error function, 1 - erf(x)", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return erfc(x); }
  template <class V> MZ_HD static V derivative(const V& x, const V&) {
    return num<V>(-kTwoOverSqrtPi) * exp(-x * x);
  }
};

struct Erfinv {
  static constexpr OpTraits traits =
      unary("erfinv", Precision::f32, "inverse of the error function", output(0));
  template <class V> MZ_HD static V forward(const V& x) { return erfinv(x); }
  template <class V> MZ_HD static V derivative(const V&, const V& y) {
    return num<V>(1 / kTwoOverSqrtPi) * exp(y * y);
  }
};

struct Exp {
  static constexpr OpTraits traits = unary("exp", Precision::f32, "exponential", output(0));
  template <class V> MZ_HD static V forward(const V& x) { return exp(x); }
  static bool is_short(float x) { return has_normal_exp(x); }
  static float forward_short(float x) { return exp_normal(x); }
  static constexpr for_bf16::Range bf16_range = for_bf16::kNormalExp;
  MZ_HD static float forward_bf16(float x) { return for_bf16::exp(x); }
  template <class V> MZ_HD static V derivative(const V&, const V& y) { return y; }
};

struct Exp2 {
  static constexpr OpTraits traits = unary("exp2", Precision::match, "2 to the power x", output(0));
  template <class V> MZ_HD static V forward(const V& x) { return exp2(x); }
  template <class V> MZ_HD static V derivative(const V&, const V& y) {
    return num<V>(0.693147180559945309417) * y;
  }
};

struct Expm1 {
  // The gradient is y + 1 = e^x, computed from x: y + 1 would cancel where y is near -1.
  static constexpr OpTraits traits =
      unary("expm1", Precision::f32, "exponential minus 1, accurate near 0", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return expm1(x); }
  template <class V> MZ_HD static V derivative(const V& x, const V&) { return exp(x); }
};

struct Log {
  static constexpr OpTraits traits = unary("log", Precision::f32, "natural logarithm", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return log(x); }
  static constexpr for_bf16::Range bf16_range = for_bf16::kPositive;
  MZ_HD static float forward_bf16(float x) { return for_bf16::log(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) { return g / x; }
};

struct Log10 {
  static constexpr OpTraits traits =
      unary("log10", Precision::f32, "logarithm to base 10", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return log10(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return num<V>(0.434294481903251827651) * g / x;
  }
};

struct Log1p {
  static constexpr OpTraits traits =
      unary("log1p", Precision::f32, "logarithm of 1 + x, accurate near 0", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return log1p(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return g / (1 + x);
  }
};

struct Log2 {
  static constexpr OpTraits traits = unary("log2", Precision::f32, "logarithm to base 2", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return log2(x); }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&) {
    return num<V>(1.44269504088896340736) * g / x;
  }
};

struct Logit {
  static constexpr OpTraits traits = unary("logit", Precision::match, "log(x / (1 - x))", input(0));
  struct Attrs {
    double eps = -1;  // negative: no clamping
  };
  template <class V> MZ_HD static V forward(const V& x, const Attrs& attrs) {
    const bool clamps = attrs.eps >= 0;
    const V low = clamps ? num<V>(attrs.eps) : V(-INFINITY), high = clamps ? 1 - low : V(INFINITY);
    const V raised = select(x < low, low, x);
    const V p = select(raised > high, high, raised);
    // Near 1/2 the quotient is close to 1 and its logarithm cancels; 2 p - 1 is exact.
    return select(p > num<V>(0.25), log1p((p + p - 1) / (1 - p)), log(p / (1 - p)));
  }
  template <class V> MZ_HD static V gradient(const V& g, const V& x, const V&, const Attrs& attrs) {
    const bool clamps = attrs.eps >= 0;
    const auto low = num<V>(clamps ? attrs.eps : 0), high = 1 - low;
    const auto inside = (x >= low) & (x <= high);
    const V p = select(inside, x, num<V>(0.5));
    return select(inside, g / (p * (1 - p)), num<V>(clamps ? 0 : NAN));
  }
};

struct Sin {
  static constexpr OpTraits traits = unary("sin", Precision::match, "sine", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return sin(x); }
  template <class V> MZ_HD static V derivative(const V& x, const V&) { return cos(x); }
  static bool is_short(float x) { return is_moderate_angle(x); }
  static float forward_short(float x) { return sin_moderate(x); }
  static float gradient_short(float g, float x, float) { return g * cos_moderate(x); }
};

struct Sinh {
  static constexpr OpTraits traits = unary("sinh", Precision::f32, "hyperbolic sine", input(0));
  template <class V> MZ_HD static V forward(const V& x) { return sinh(x); }
  template <class V> MZ_HD static V derivative(const V& x, const V&) { return cosh(x); }
};

struct Tan {
  static constexpr OpTraits traits = unary("tan", Precision::f32, "tangent", output(0));
  template <class V> MZ_HD static V forward(const V& x) { return tan(x); }
  static bool is_short(float x) { return is_moderate_angle(x); }
  static float forward_short(float x) { return tan_moderate(x); }
  template <class V> MZ_HD static V derivative(const V&, const V& y) { return 1 + y * y; }
};

// clang-format off
/** The ops of one tensor without attributes: autograd/ops/functions.cpp defines function(x) and
 *  function_(x) of each. */
#define MZ_FUNCTIONS(of)                                                                          \
  of(acos, Acos) of(acosh, Acosh) of(asin, Asin) of(asinh, Asinh) of(atan, Atan) of(atanh, Atanh) \
  of(cos, Cos) of(cosh, Cosh) of(erf, Erf) of(erfc, Erfc) of(erfinv, Erfinv) of(exp, Exp)         \
  of(exp2, Exp2) of(expm1, Expm1) of(log, Log) of(log10, Log10) of(log1p, Log1p) of(log2, Log2)   \
  of(sin, Sin) of(sinh, Sinh) of(tan, Tan)
// clang-format on

using FunctionOps = Extended<type_list<Logit> MZ_FUNCTIONS(MZ_NEXT_TYPE)>::type;

}  // namespace mezzo::op
