// Elementwise arithmetic. Shape, broadcasting and in-place forms: see pointwise.h.
// Sees: number.h.
// Read next: operators.h; ../../tensor/elementwise/arithmetic.h (the formulas).
//
// Operands promote by category (bool < integer < floating), within it to the widest tensor that has dimensions; 0-dim tensors and C++ numbers
// decide nothing within their category. Functions with steps (fmod, comparisons, ...) round them to
// the promoted dtype. In place the result has self's dtype, the arithmetic the promoted one.
#pragma once

#include "number.h"

namespace mezzo {

struct AddOptions {
  double alpha = 1;  // factor of the second operand (of the first in rsub)
};

/** What division does with the fraction of the quotient. */
enum class Rounding : std::uint8_t { none, trunc, floor };

struct DivOptions {
  Rounding rounding = Rounding::none;
};

struct AddcOptions {
  double value = 1;  // factor of the product or quotient
};

/** a + alpha * b; of bools whether either holds. Precision: widest. Gradient: 1, alpha.
 *  Errors: ShapeError; ValueError when alpha has a fraction and both are integers, or is neither 0
 *  nor 1 and both are bool. */
MZ_API Tensor add(const Tensor& a, const Tensor& b, const AddOptions& options = {});
/** x + value * a / b, rounded once. Precision: widest. Gradient: 1, value/b, -value a/b^2. Errors: ShapeError, DtypeError for integers. */
MZ_API Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const AddcOptions& options = {});
/** x + value * a * b, rounded once. Precision: widest. Gradient: 1, value b, value a.
 *  Errors: as sub. */
MZ_API Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const AddcOptions& options = {});
/** Angle of the point (x, y), in radians, in [-pi, pi]. Precision: widest. Gradient: x/(x^2 + y^2), -y/(x^2 + y^2), 0 at the origin. */
MZ_API Tensor atan2(const Tensor& y, const Tensor& x);
/** True division; integers give f32. With rounding trunc or floor the quotient is rounded to an integer, and integers stay integers.
 *  Precision: widest. Gradient: 1/b, -a/b^2; 0 with rounding. Errors: ShapeError; ValueError for an integer divided by 0 with rounding. */
MZ_API Tensor div(const Tensor& a, const Tensor& b, const DivOptions& options = {});
/** a / b rounded down; integers stay. Precision: widest. Gradient: 0. Errors: ShapeError, ValueError for an integer divided by 0. */
MZ_API Tensor floor_divide(const Tensor& a, const Tensor& b);
/** What trunc(a / b) * b leaves of a: it has the sign of a. Precision: widest. Gradient: 1, -trunc(a/b). Errors: as floor_divide. */
MZ_API Tensor fmod(const Tensor& a, const Tensor& b);
/** a + w * (b - a), exact at both ends. Precision: widest. Gradient: 1 - w, w, b - a. */
MZ_API Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& w);
/** The larger of a and b; nan where either is. Precision: widest. Gradient: 1 for the larger, 1/2 each where they are equal. */
MZ_API Tensor maximum(const Tensor& a, const Tensor& b);
/** The smaller of a and b; nan where either is. Precision: widest. Gradient: 1 for the smaller, 1/2 each where they are equal. */
MZ_API Tensor minimum(const Tensor& a, const Tensor& b);
/** Product of elements; of bools whether both hold. Precision: widest. Gradient: b, a.
 *  Errors: ShapeError. */
MZ_API Tensor mul(const Tensor& a, const Tensor& b);
/** What floor(a / b) * b leaves of a: it has the sign of b. Precision: widest. Gradient: 1, -floor(a/b). Errors: as floor_divide. */
MZ_API Tensor remainder(const Tensor& a, const Tensor& b);
/** b - alpha * a. Precision: widest. Gradient: -alpha, 1. Errors: as sub. */
MZ_API Tensor rsub(const Tensor& a, const Tensor& b, const AddOptions& options = {});
/** a - alpha * b. Precision: widest. Gradient: 1, -alpha.
 *  Errors: ShapeError; DtypeError for bools; ValueError when alpha has a fraction and both are
 *  integers. */
MZ_API Tensor sub(const Tensor& a, const Tensor& b, const AddOptions& options = {});

MZ_API const Tensor& add_(const Tensor& self, const Tensor& other, const AddOptions& options = {});
MZ_API const Tensor& addcdiv_(const Tensor& self, const Tensor& a, const Tensor& b,
                              const AddcOptions& options = {});
MZ_API const Tensor& addcmul_(const Tensor& self, const Tensor& a, const Tensor& b,
                              const AddcOptions& options = {});
MZ_API const Tensor& atan2_(const Tensor& self, const Tensor& x);
MZ_API const Tensor& div_(const Tensor& self, const Tensor& other, const DivOptions& options = {});
MZ_API const Tensor& floor_divide_(const Tensor& self, const Tensor& other);
MZ_API const Tensor& fmod_(const Tensor& self, const Tensor& other);
MZ_API const Tensor& lerp_(const Tensor& self, const Tensor& b, const Tensor& w);
MZ_API const Tensor& mul_(const Tensor& self, const Tensor& other);
MZ_API const Tensor& remainder_(const Tensor& self, const Tensor& other);
MZ_API const Tensor& sub_(const Tensor& self, const Tensor& other, const AddOptions& options = {});

// The same with a C++ number as second operand (third for lerp).
#define MZ_WITH_NUMBER(function)                                                                \
  template <Number S> Tensor function(const Tensor& a, S b) { return function(a, operand(b)); } \
  template <Number S> const Tensor& function##_(const Tensor& self, S b) {                      \
    return function##_(self, operand(b));                                                       \
  }
#define MZ_WITH_NUMBER_AND_OPTIONS(function, Options)                                                   \
  template <Number S> Tensor function(const Tensor& a, S b, const Options& options = {}) {              \
    return function(a, operand(b), options);                                                            \
  }                                                                                                     \
  template <Number S> const Tensor& function##_(const Tensor& self, S b, const Options& options = {}) { \
    return function##_(self, operand(b), options);                                                      \
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
template <Number S> Tensor lerp(const Tensor& a, const Tensor& b, S w) { return lerp(a, b, operand(w)); }
template <Number S> const Tensor& lerp_(const Tensor& self, const Tensor& b, S w) {
  return lerp_(self, b, operand(w));
}
template <Number S> Tensor rsub(const Tensor& a, S b, const AddOptions& options = {}) {
  return rsub(a, operand(b), options);
}

}  // namespace mezzo
