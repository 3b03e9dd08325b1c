// Elementwise functions of analysis. Shape, integers and in-place forms: see pointwise.h.
// Sees: tensor.
// Read next: ../../tensor/elementwise/functions.h (the formulas).
#pragma once

#include "../../tensor/tensor.h"

namespace mezzo {

/** Arc cosine, in radians. Precision: full. Gradient: -1/sqrt(1 - x^2), infinite at +-1. Outside [-1,1]: nan. */
MZ_API Tensor acos(const Tensor& x);
/** Area hyperbolic cosine. Precision: follows the input. Gradient: 1/sqrt(x^2 - 1). Below 1: nan. */
MZ_API Tensor acosh(const Tensor& x);
/** Arc sine, in radians. Precision: full. Gradient: 1/sqrt(1 - x^2), infinite at +-1. Outside [-1,1]: nan. */
MZ_API Tensor asin(const Tensor& x);
/** Area hyperbolic sine. Precision: follows the input. Gradient: 1/sqrt(x^2 + 1). */
MZ_API Tensor asinh(const Tensor& x);
/** Arc tangent, in radians. Precision: follows the input. Gradient: 1/(1 + x^2). */
MZ_API Tensor atan(const Tensor& x);
/** Area hyperbolic tangent. Precision: follows the input. Gradient: 1/(1 - x^2). Outside [-1,1]: nan. */
MZ_API Tensor atanh(const Tensor& x);
/** Cosine of radians. Precision: follows the input. Gradient: -sin(x). */
MZ_API Tensor cos(const Tensor& x);
/** Hyperbolic cosine. Precision: full. Gradient: sinh(x). */
MZ_API Tensor cosh(const Tensor& x);
/** Error function. Precision: follows the input. Gradient: 2/sqrt(pi) exp(-x^2). */
MZ_API Tensor erf(const Tensor& x);
/** 1 - erf(x) without cancellation. Precision: follows the input. Gradient: -2/sqrt(pi) exp(-x^2). */
MZ_API Tensor erfc(const Tensor& x);
/** The y with erf(y) = x. Precision: full. Gradient: sqrt(pi)/2 exp(y^2). +-1 gives +-inf, outside nan. */
MZ_API Tensor erfinv(const Tensor& x);
/** e^x. Precision: full. Gradient: y. Overflow gives inf. */
MZ_API Tensor exp(const Tensor& x);
/** 2^x. Precision: follows the input. Gradient: ln(2) y. */
MZ_API Tensor exp2(const Tensor& x);
/** e^x - 1, exact near 0. Precision: full. Gradient: e^x. */
MZ_API Tensor expm1(const Tensor& x);
/** Natural logarithm. Precision: full. Gradient: 1/x. 0 gives -inf, negative nan. */
MZ_API Tensor log(const Tensor& x);
/** Logarithm to base 10. Precision: full. Gradient: 1/(x ln 10). 0 gives -inf, negative nan. */
MZ_API Tensor log10(const Tensor& x);
/** ln(1 + x), exact near 0. Precision: full. Gradient: 1/(1 + x). -1 gives -inf, below nan. */
MZ_API Tensor log1p(const Tensor& x);
/** Logarithm to base 2. Precision: full. Gradient: 1/(x ln 2). 0 gives -inf, negative nan. */
MZ_API Tensor log2(const Tensor& x);
/** ln(x / (1 - x)), the inverse of sigmoid; x is limited to [eps, 1 - eps] first where eps is given.
 *  Precision: follows the input. Gradient: 1/(x (1 - x)), 0 where x was limited. Without eps, 0 and 1 give -inf and inf, outside nan.
 *  Errors: ValueError unless 0 <= eps <= 1/2. */
MZ_API Tensor logit(const Tensor& x);
MZ_API Tensor logit(const Tensor& x, double eps);
/** Sine of radians. Precision: follows the input. Gradient: cos(x). */
MZ_API Tensor sin(const Tensor& x);
/** Hyperbolic sine. Precision: full. Gradient: cosh(x). */
MZ_API Tensor sinh(const Tensor& x);
/** Tangent of radians. Precision: full. Gradient: 1 + y^2. */
MZ_API Tensor tan(const Tensor& x);

// In place. Full-precision ones refuse an f16 or bf16 tensor while casts are active.
MZ_API const Tensor& acos_(const Tensor& self);
MZ_API const Tensor& acosh_(const Tensor& self);
MZ_API const Tensor& asin_(const Tensor& self);
MZ_API const Tensor& asinh_(const Tensor& self);
MZ_API const Tensor& atan_(const Tensor& self);
MZ_API const Tensor& atanh_(const Tensor& self);
MZ_API const Tensor& cos_(const Tensor& self);
MZ_API const Tensor& cosh_(const Tensor& self);
MZ_API const Tensor& erf_(const Tensor& self);
MZ_API const Tensor& erfc_(const Tensor& self);
MZ_API const Tensor& erfinv_(const Tensor& self);
MZ_API const Tensor& exp_(const Tensor& self);
MZ_API const Tensor& exp2_(const Tensor& self);
MZ_API const Tensor& expm1_(const Tensor& self);
MZ_API const Tensor& log_(const Tensor& self);
MZ_API const Tensor& log10_(const Tensor& self);
MZ_API const Tensor& log1p_(const Tensor& self);
MZ_API const Tensor& log2_(const Tensor& self);
MZ_API const Tensor& logit_(const Tensor& self);
MZ_API const Tensor& sin_(const Tensor& self);
MZ_API const Tensor& sinh_(const Tensor& self);
MZ_API const Tensor& tan_(const Tensor& self);

}  // namespace mezzo
