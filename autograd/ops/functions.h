// Elementwise functions of analysis: exponentials, logarithms, trigonometric functions. pointwise.h
// says what elementwise functions have in common; ops.h explains the precision tags.
#pragma once

#include "../../tensor/core/tensor.h"

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
