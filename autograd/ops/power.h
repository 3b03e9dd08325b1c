// Elementwise powers, roots and reciprocals. Shape, integers and in-place forms: see pointwise.h.
// Sees: number.h.
// Read next: ../../tensor/elementwise/power.h (the formulas).
#pragma once

#include "number.h"

namespace mezzo {

/** x to the power `exponent`, broadcast. Precision: full; two tensors promote to the widest of them. Integers to integers stay integers.
 *  Gradient: base exponent * x^(exponent - 1), exactly 0 where the exponent is 0; exponent y ln(x), 0 where x is 0 and the exponent >= 0.
 *  pow(x, 0) is 1 for 0 and nan too; a negative base with an exponent that is not an integer gives nan.
 *  Errors: ValueError for a negative exponent among integers, ShapeError. */
MZ_API Tensor pow(const Tensor& x, const Tensor& exponent);
MZ_API const Tensor& pow_(const Tensor& self, const Tensor& exponent);

template <Number S> Tensor pow(S base, const Tensor& exponent) { return pow(operand(base), exponent); }
template <Number S> Tensor pow(const Tensor& x, S exponent) { return pow(x, operand(exponent)); }
template <Number S> const Tensor& pow_(const Tensor& self, S exponent) {
  return pow_(self, operand(exponent));
}

/** numerator / x, one division. Precision: full (the quotient of two tensors, div, is widest). Gradient: -numerator/x^2. */
MZ_API Tensor rdiv(const Tensor& x, double numerator);
/** 1/x. Precision: full. Gradient: -y^2. 0 gives inf of its sign. */
MZ_API Tensor reciprocal(const Tensor& x);
/** 1/sqrt(x). Precision: full. Gradient: -y^3/2. 0 gives inf, negative nan. */
MZ_API Tensor rsqrt(const Tensor& x);
/** Square root. Precision: follows the input. Gradient: 1/(2 y), infinite at 0. Negative gives nan. */
MZ_API Tensor sqrt(const Tensor& x);
/** x * x. Precision: follows the input; integers stay. Gradient: 2 x. */
MZ_API Tensor square(const Tensor& x);

MZ_API const Tensor& reciprocal_(const Tensor& self);
MZ_API const Tensor& rsqrt_(const Tensor& self);
MZ_API const Tensor& sqrt_(const Tensor& self);
MZ_API const Tensor& square_(const Tensor& self);

}  // namespace mezzo
