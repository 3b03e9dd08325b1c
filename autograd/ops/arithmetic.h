// Elementwise arithmetic. pointwise.h says what elementwise functions have in common; operators.h
// has the operators + - * /.
//
// Operands are promoted by category (bool < integer < floating-point), and within a category to the
// widest tensor that has dimensions. 0-dim tensors and C++ numbers do not affect the dtype within
// their category. Functions whose result has steps (fmod, remainder, rounded division, ...) round
// their operands to the promoted dtype first. In-place forms compute in the promoted dtype; the
// result has self's dtype.
#pragma once

#include "number.h"

namespace mezzo {

/** Options of add, sub and rsub. */
struct AddOptions {
  double alpha = 1;  // factor of the second operand (of the first in rsub)
};

/** How division rounds the quotient to an integer: not at all, towards 0, or down. */
enum class Rounding : std::uint8_t { none, trunc, floor };

/** Options of div. In PyTorch the field is named rounding_mode. */
struct DivOptions {
  Rounding rounding = Rounding::none;  // how the quotient is rounded
};

/** Options of addcdiv and addcmul. */
struct AddcOptions {
  double value = 1;  // factor of the product or quotient
};

/** Returns a + alpha * b; of bools, a or b.
 *  Precision: promote.
 *  Gradient: 1 for a, alpha for b.
 *  Errors: ShapeError; ValueError when alpha has a fraction and both operands are integers, or when
 *  alpha is neither 0 nor 1 and both are bool. */
MZ_API Tensor add(const Tensor& a, const Tensor& b, const AddOptions& options = {});
/** Returns x + value * a / b, rounded once.
 *  Precision: promote.
 *  Gradient: 1 for x, value/b for a, -value a/b^2 for b.
 *  Errors: ShapeError; DtypeError for integers. */
MZ_API Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b,
                      const AddcOptions& options = {});
/** Returns x + value * a * b, rounded once.
 *  Precision: promote.
 *  Gradient: 1 for x, value b for a, value a for b.
 *  Errors: as sub. */
MZ_API Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b,
                      const AddcOptions& options = {});
/** Returns the angle of the point (x, y) in radians, in [-pi, pi].
 *  Precision: promote.
 *  Gradient: x/(x^2 + y^2) for y, -y/(x^2 + y^2) for x, 0 at the origin. */
MZ_API Tensor atan2(const Tensor& y, const Tensor& x);
/** Returns a / b; integers give f32. With rounding trunc or floor the quotient is rounded to an
 *  integer, and integers stay integers.
 *  Precision: promote.
 *  Gradient: 1/b for a, -a/b^2 for b; 0 with rounding.
 *  Errors: ShapeError; ValueError for an integer divided by 0 with rounding. */
MZ_API Tensor div(const Tensor& a, const Tensor& b, const DivOptions& options = {});
/** Returns a / b rounded down. Integers stay integers.
 *  Precision: promote.
 *  Gradient: 0.
 *  Errors: ShapeError; ValueError for an integer divided by 0. */
MZ_API Tensor floor_divide(const Tensor& a, const Tensor& b);
/** Returns the remainder a - trunc(a / b) * b, which has the sign of a.
 *  Precision: promote.
 *  Gradient: 1 for a, -trunc(a/b) for b.
 *  Errors: as floor_divide. */
MZ_API Tensor fmod(const Tensor& a, const Tensor& b);
/** Returns a + w * (b - a), exact for w = 0 and w = 1. Unlike PyTorch, where the difference leaves
 *  the range, or one end is infinite, it returns (1 - w) a + w b, and for w = 0 or 1 an end.
 *  Precision: promote.
 *  Gradient: 1 - w for a, w for b, b - a for w. */
MZ_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& w);
/** Returns log(exp(a) + exp(b)), computed without overflow.
 *  Precision: promote.
 *  Gradient: exp(a - y) for a, exp(b - y) for b; 1/2 each where they are equal. Unlike PyTorch,
 * that holds for equal infinities too. */
MZ_API Tensor logaddexp(const Tensor& a, const Tensor& b);
/** Returns the larger of a and b, or nan where either is nan.
 *  Precision: promote; a number is rounded once to the dtype of the result.
 *  Gradient: 1 for the larger, 1/2 each where they are equal. */
MZ_API Tensor maximum(const Tensor& a, const Tensor& b);
/** Returns the smaller of a and b, or nan where either is nan.
 *  Precision: promote; a number is rounded once to the dtype of the result.
 *  Gradient: 1 for the smaller, 1/2 each where they are equal. */
MZ_API Tensor minimum(const Tensor& a, const Tensor& b);
/** Returns the elementwise product; of bools, a and b.
 *  Precision: promote.
 *  Gradient: b for a, a for b.
 *  Errors: ShapeError. */
MZ_API Tensor mul(const Tensor& a, const Tensor& b);
/** Returns the remainder a - floor(a / b) * b, which has the sign of b.
 *  Precision: promote.
 *  Gradient: 1 for a, -floor(a/b) for b.
 *  Errors: as floor_divide. */
MZ_API Tensor remainder(const Tensor& a, const Tensor& b);
/** Returns b - alpha * a.
 *  Precision: promote.
 *  Gradient: -alpha for a, 1 for b.
 *  Errors: as sub. */
MZ_API Tensor rsub(const Tensor& a, const Tensor& b, const AddOptions& options = {});
/** Returns a - alpha * b.
 *  Precision: promote.
 *  Gradient: 1 for a, -alpha for b.
 *  Errors: ShapeError; DtypeError for bools; ValueError when alpha has a fraction and both are
 *  integers. */
MZ_API Tensor sub(const Tensor& a, const Tensor& b, const AddOptions& options = {});

// In-place forms.
/** Overwrites self with add(self, other, options) and returns it. */
MZ_API const Tensor& add_(const Tensor& self, const Tensor& other, const AddOptions& options = {});
/** Overwrites self with addcdiv(self, a, b, options) and returns it. */
MZ_API const Tensor& addcdiv_(const Tensor& self, const Tensor& a, const Tensor& b,
                              const AddcOptions& options = {});
/** Overwrites self with addcmul(self, a, b, options) and returns it. */
MZ_API const Tensor& addcmul_(const Tensor& self, const Tensor& a, const Tensor& b,
                              const AddcOptions& options = {});
/** Overwrites self with atan2(self, x) and returns it. */
MZ_API const Tensor& atan2_(const Tensor& self, const Tensor& x);
/** Overwrites self with div(self, other, options) and returns it. */
MZ_API const Tensor& div_(const Tensor& self, const Tensor& other, const DivOptions& options = {});
/** Overwrites self with floor_divide(self, other) and returns it. */
MZ_API const Tensor& floor_divide_(const Tensor& self, const Tensor& other);
/** Overwrites self with fmod(self, other) and returns it. */
MZ_API const Tensor& fmod_(const Tensor& self, const Tensor& other);
/** Overwrites self with lerp(self, b, w) and returns it. */
MZ_API const Tensor& lerp_(const Tensor& self, const Tensor& b, const Tensor& w);
/** Overwrites self with mul(self, other) and returns it. */
MZ_API const Tensor& mul_(const Tensor& self, const Tensor& other);
/** Overwrites self with remainder(self, other) and returns it. */
MZ_API const Tensor& remainder_(const Tensor& self, const Tensor& other);
/** Overwrites self with sub(self, other, options) and returns it. */
MZ_API const Tensor& sub_(const Tensor& self, const Tensor& other, const AddOptions& options = {});

// Overloads that take a C++ number as second operand (third for lerp).
#define MZ_WITH_NUMBER(function)                                                                \
  template <Number S> Tensor function(const Tensor& a, S b) { return function(a, operand(b)); } \
  template <Number S> const Tensor& function##_(const Tensor& self, S b) {                      \
    return function##_(self, operand(b));                                                       \
  }
#define MZ_WITH_NUMBER_AND_OPTIONS(function, Options)                                      \
  template <Number S> Tensor function(const Tensor& a, S b, const Options& options = {}) { \
    return function(a, operand(b), options);                                               \
  }                                                                                        \
  template <Number S>                                                                      \
  const Tensor& function##_(const Tensor& self, S b, const Options& options = {}) {        \
    return function##_(self, operand(b), options);                                         \
  }
MZ_WITH_NUMBER_AND_OPTIONS(add, AddOptions)
MZ_WITH_NUMBER_AND_OPTIONS(div, DivOptions)
MZ_WITH_NUMBER(floor_divide)
MZ_WITH_NUMBER(fmod)
MZ_WITH_NUMBER(mul)
MZ_WITH_NUMBER(remainder)
MZ_WITH_NUMBER_AND_OPTIONS(sub, AddOptions)
#undef MZ_WITH_NUMBER
#undef MZ_WITH_NUMBER_AND_OPTIONS
/** Returns lerp(a, b, w) with one weight for all elements. */
template <Number S> Tensor lerp(const Tensor& a, const Tensor& b, S w) {
  return lerp(a, b, operand(w));
}
/** Overwrites self with lerp(self, b, w) and returns it. */
template <Number S> const Tensor& lerp_(const Tensor& self, const Tensor& b, S w) {
  return lerp_(self, b, operand(w));
}
/** Returns b - alpha * a for a number b. */
template <Number S> Tensor rsub(const Tensor& a, S b, const AddOptions& options = {}) {
  return rsub(a, operand(b), options);
}

}  // namespace mezzo
