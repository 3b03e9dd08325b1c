// Elementwise powers, roots and reciprocals. pointwise.h says what elementwise functions have in
// common; ops.h explains the precision tags.
#pragma once

#include "number.h"

namespace mezzo {

/** Returns x to the power `exponent`; both broadcast. Integers to the power of integers stay
 *  integers. pow(x, 0) is 1, also for x = 0 and nan; a negative base with a fractional exponent
 *  gives nan.
 *  Precision: f32; two tensors are promoted to the wider dtype.
 *  Gradient: exponent * x^(exponent - 1) for x, exactly 0 where the exponent is 0; y ln(x) for
 *  exponent, 0 where x is 0 and the exponent >= 0.
 *  Errors: ValueError for a negative exponent among integers; ShapeError. */
MZ_API Tensor pow(const Tensor& x, const Tensor& exponent);
/** Overwrites self with pow(self, exponent) and returns it. */
MZ_API const Tensor& pow_(const Tensor& self, const Tensor& exponent);

/** Returns a number to the power of each exponent. */
template <Number S> Tensor pow(S base, const Tensor& exponent) {
  return pow(operand(base), exponent);
}
/** Returns x to the power of a number; 2, 3, -1 and 0.5 have shorter formulas. */
template <Number S> Tensor pow(const Tensor& x, S exponent) { return pow(x, operand(exponent)); }
/** Overwrites self with pow(self, exponent) and returns it. */
template <Number S> const Tensor& pow_(const Tensor& self, S exponent) {
  return pow_(self, operand(exponent));
}

/** Returns numerator / x, computed with one division.
 *  Precision: f32 (for the quotient of two tensors, div, it is promote).
 *  Gradient: -numerator/x^2. */
MZ_API Tensor rdiv(const Tensor& x, double numerator);
/** Returns 1/x; 0 gives inf of its sign.
 *  Precision: f32. Gradient: -y^2. */
MZ_API Tensor reciprocal(const Tensor& x);
/** Returns 1/sqrt(x): inf for 0, nan for negative x.
 *  Precision: f32. Gradient: -y^3/2. */
MZ_API Tensor rsqrt(const Tensor& x);
/** Returns the square root; nan for negative x.
 *  Precision: match. Gradient: 1/(2 y), infinite at 0. */
MZ_API Tensor sqrt(const Tensor& x);
/** Returns x * x. Integers stay integers.
 *  Precision: match. Gradient: 2 x. */
MZ_API Tensor square(const Tensor& x);

// In-place forms.
/** Overwrites self with reciprocal(self) and returns it. */
MZ_API const Tensor& reciprocal_(const Tensor& self);
/** Overwrites self with rsqrt(self) and returns it. */
MZ_API const Tensor& rsqrt_(const Tensor& self);
/** Overwrites self with sqrt(self) and returns it. */
MZ_API const Tensor& sqrt_(const Tensor& self);
/** Overwrites self with square(self) and returns it. */
MZ_API const Tensor& square_(const Tensor& self);

}  // namespace mezzo
