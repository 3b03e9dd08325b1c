// Elementwise functions of analysis: exponentials, logarithms, trigonometric functions. pointwise.h
// says what elementwise functions have in common; ops.h explains the precision tags.
#pragma once

#include "../../core/tensor.h"
#include "formula.h"

namespace mezzo {

/** Returns the arc cosine, in radians; nan outside [-1, 1].
 *  Precision: f32. Gradient: -1/sqrt(1 - x^2), infinite at +-1. */
MZ_API Tensor acos(const Tensor& x);
/** Returns the inverse hyperbolic cosine; nan below 1.
 *  Precision: match. Gradient: 1/sqrt(x^2 - 1). */
MZ_API Tensor acosh(const Tensor& x);
/** Returns the arc sine, in radians; nan outside [-1, 1].
 *  Precision: f32. Gradient: 1/sqrt(1 - x^2), infinite at +-1. */
MZ_API Tensor asin(const Tensor& x);
/** Returns the inverse hyperbolic sine.
 *  Precision: match. Gradient: 1/sqrt(x^2 + 1); unlike in PyTorch, the square does not overflow. */
MZ_API Tensor asinh(const Tensor& x);
/** Returns the arc tangent, in radians.
 *  Precision: match. Gradient: 1/(1 + x^2). */
MZ_API Tensor atan(const Tensor& x);
/** Returns the inverse hyperbolic tangent; nan outside [-1, 1].
 *  Precision: match. Gradient: 1/(1 - x^2). */
MZ_API Tensor atanh(const Tensor& x);
/** Returns the cosine of an angle in radians.
 *  Precision: match. Gradient: -sin(x). */
MZ_API Tensor cos(const Tensor& x);
/** Returns the hyperbolic cosine.
 *  Precision: f32. Gradient: sinh(x). */
MZ_API Tensor cosh(const Tensor& x);
/** Returns the error function.
 *  Precision: match. Gradient: 2/sqrt(pi) exp(-x^2). */
MZ_API Tensor erf(const Tensor& x);
/** Returns 1 - erf(x), computed without cancellation.
 *  Precision: match. Gradient: -2/sqrt(pi) exp(-x^2). */
MZ_API Tensor erfc(const Tensor& x);
/** Returns the y with erf(y) = x: +-inf for +-1, nan outside [-1, 1].
 *  Precision: f32. Gradient: sqrt(pi)/2 exp(y^2). */
MZ_API Tensor erfinv(const Tensor& x);
/** Returns e^x; overflow gives inf.
 *  Precision: f32. Gradient: y. */
MZ_API Tensor exp(const Tensor& x);
/** Returns 2^x.
 *  Precision: match. Gradient: ln(2) y. */
MZ_API Tensor exp2(const Tensor& x);
/** Returns e^x - 1, accurate near 0.
 *  Precision: f32. Gradient: e^x. */
MZ_API Tensor expm1(const Tensor& x);
/** Returns the natural logarithm: -inf for 0, nan for negative x.
 *  Precision: f32. Gradient: 1/x. */
MZ_API Tensor log(const Tensor& x);
/** Returns the logarithm to base 10: -inf for 0, nan for negative x.
 *  Precision: f32. Gradient: 1/(x ln 10). */
MZ_API Tensor log10(const Tensor& x);
/** Returns ln(1 + x), accurate near 0: -inf for -1, nan below.
 *  Precision: f32. Gradient: 1/(1 + x). */
MZ_API Tensor log1p(const Tensor& x);
/** Returns the logarithm to base 2: -inf for 0, nan for negative x.
 *  Precision: f32. Gradient: 1/(x ln 2). */
MZ_API Tensor log2(const Tensor& x);
/** Returns ln(x / (1 - x)), the inverse of sigmoid. With eps, x is first clamped to [eps, 1 - eps].
 *  Without it, 0 and 1 give -inf and inf, and x outside [0, 1] gives nan.
 *  Precision: match. Gradient: 1/(x (1 - x)), 0 where x was clamped.
 *  Errors: ValueError unless 0 <= eps <= 1/2. */
MZ_API Tensor logit(const Tensor& x);
/** Returns logit of x clamped to [eps, 1 - eps]. */
MZ_API Tensor logit(const Tensor& x, double eps);
/** Returns the sine of an angle in radians.
 *  Precision: match. Gradient: cos(x). */
MZ_API Tensor sin(const Tensor& x);
/** Returns the hyperbolic sine.
 *  Precision: f32. Gradient: cosh(x). */
MZ_API Tensor sinh(const Tensor& x);
/** Returns the tangent of an angle in radians.
 *  Precision: f32. Gradient: 1 + y^2. */
MZ_API Tensor tan(const Tensor& x);

// In-place forms. Those whose tag is f32 throw for an f16 or bf16 tensor while casts are on.
/** Overwrites self with acos(self) and returns it. */
MZ_API const Tensor& acos_(const Tensor& self);
/** Overwrites self with acosh(self) and returns it. */
MZ_API const Tensor& acosh_(const Tensor& self);
/** Overwrites self with asin(self) and returns it. */
MZ_API const Tensor& asin_(const Tensor& self);
/** Overwrites self with asinh(self) and returns it. */
MZ_API const Tensor& asinh_(const Tensor& self);
/** Overwrites self with atan(self) and returns it. */
MZ_API const Tensor& atan_(const Tensor& self);
/** Overwrites self with atanh(self) and returns it. */
MZ_API const Tensor& atanh_(const Tensor& self);
/** Overwrites self with cos(self) and returns it. */
MZ_API const Tensor& cos_(const Tensor& self);
/** Overwrites self with cosh(self) and returns it. */
MZ_API const Tensor& cosh_(const Tensor& self);
/** Overwrites self with erf(self) and returns it. */
MZ_API const Tensor& erf_(const Tensor& self);
/** Overwrites self with erfc(self) and returns it. */
MZ_API const Tensor& erfc_(const Tensor& self);
/** Overwrites self with erfinv(self) and returns it. */
MZ_API const Tensor& erfinv_(const Tensor& self);
/** Overwrites self with exp(self) and returns it. */
MZ_API const Tensor& exp_(const Tensor& self);
/** Overwrites self with exp2(self) and returns it. */
MZ_API const Tensor& exp2_(const Tensor& self);
/** Overwrites self with expm1(self) and returns it. */
MZ_API const Tensor& expm1_(const Tensor& self);
/** Overwrites self with log(self) and returns it. */
MZ_API const Tensor& log_(const Tensor& self);
/** Overwrites self with log10(self) and returns it. */
MZ_API const Tensor& log10_(const Tensor& self);
/** Overwrites self with log1p(self) and returns it. */
MZ_API const Tensor& log1p_(const Tensor& self);
/** Overwrites self with log2(self) and returns it. */
MZ_API const Tensor& log2_(const Tensor& self);
/** Overwrites self with logit(self) and returns it. */
MZ_API const Tensor& logit_(const Tensor& self);
/** Overwrites self with sin(self) and returns it. */
MZ_API const Tensor& sin_(const Tensor& self);
/** Overwrites self with sinh(self) and returns it. */
MZ_API const Tensor& sinh_(const Tensor& self);
/** Overwrites self with tan(self) and returns it. */
MZ_API const Tensor& tan_(const Tensor& self);

}  // namespace mezzo

namespace mezzo::op {

// Parsed by g++ and by nvcc.

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
/** The ops of one tensor without attributes: tensor/ops/elementwise/functions.cpp defines function(x) and
 *  function_(x) of each. */
#define MZ_FUNCTIONS(of)                                                                          \
  of(acos, Acos) of(acosh, Acosh) of(asin, Asin) of(asinh, Asinh) of(atan, Atan) of(atanh, Atanh) \
  of(cos, Cos) of(cosh, Cosh) of(erf, Erf) of(erfc, Erfc) of(erfinv, Erfinv) of(exp, Exp)         \
  of(exp2, Exp2) of(expm1, Expm1) of(log, Log) of(log10, Log10) of(log1p, Log1p) of(log2, Log2)   \
  of(sin, Sin) of(sinh, Sinh) of(tan, Tan)
// clang-format on

using FunctionOps = Extended<type_list<Logit> MZ_FUNCTIONS(MZ_NEXT_TYPE)>::type;

}  // namespace mezzo::op
