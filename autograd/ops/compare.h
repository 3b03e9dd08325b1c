// Elementwise comparisons, tests, logic and bit operations. No gradient. Shape and broadcasting: see pointwise.h.
// Sees: number.h.
// Read next: operators.h; ../../tensor/elementwise/compare.h (the formulas).
#pragma once

#include "number.h"

namespace mezzo {

/** Comparisons with bool results; nan compares false, `ne` true. In place: 0 or 1 in self's dtype.
 *  Precision: widest, both sides rounded to it: full({1}, 0.1, f16) == 0.1 holds. */
MZ_API Tensor eq(const Tensor& a, const Tensor& b);
MZ_API Tensor ne(const Tensor& a, const Tensor& b);
MZ_API Tensor lt(const Tensor& a, const Tensor& b);
MZ_API Tensor le(const Tensor& a, const Tensor& b);
MZ_API Tensor gt(const Tensor& a, const Tensor& b);
MZ_API Tensor ge(const Tensor& a, const Tensor& b);
MZ_API const Tensor& eq_(const Tensor& self, const Tensor& other);
MZ_API const Tensor& ne_(const Tensor& self, const Tensor& other);
MZ_API const Tensor& lt_(const Tensor& self, const Tensor& other);
MZ_API const Tensor& le_(const Tensor& self, const Tensor& other);
MZ_API const Tensor& gt_(const Tensor& self, const Tensor& other);
MZ_API const Tensor& ge_(const Tensor& self, const Tensor& other);

/** Whether a and b have one shape and equal elements after promotion; false where there is a nan. Synchronises with the device. */
MZ_API bool equal(const Tensor& a, const Tensor& b);

/** Bool tensors: neither infinite nor nan; an infinity; not a number. Of integers: all, none, none. */
MZ_API Tensor isfinite(const Tensor& x);
MZ_API Tensor isinf(const Tensor& x);
MZ_API Tensor isnan(const Tensor& x);

/** Logic on whether elements are nonzero (nan is), with bool results; any dtypes. */
MZ_API Tensor logical_and(const Tensor& a, const Tensor& b);
MZ_API Tensor logical_not(const Tensor& x);
MZ_API Tensor logical_or(const Tensor& a, const Tensor& b);
MZ_API Tensor logical_xor(const Tensor& a, const Tensor& b);

/** Bit operations on integers, logic on bools. Errors: DtypeError for floating operands, ShapeError. */
MZ_API Tensor bitwise_and(const Tensor& a, const Tensor& b);
MZ_API Tensor bitwise_not(const Tensor& x);
MZ_API Tensor bitwise_or(const Tensor& a, const Tensor& b);
MZ_API Tensor bitwise_xor(const Tensor& a, const Tensor& b);

// Comparisons with a C++ number.
#define MZ_WITH_NUMBER(function)                                                                \
  template <Number S> Tensor function(const Tensor& a, S b) { return function(a, operand(b)); } \
  template <Number S> const Tensor& function##_(const Tensor& self, S b) {                      \
    return function##_(self, operand(b));                                                       \
  }
MZ_WITH_NUMBER(eq)
MZ_WITH_NUMBER(ne)
MZ_WITH_NUMBER(lt)
MZ_WITH_NUMBER(le)
MZ_WITH_NUMBER(gt)
MZ_WITH_NUMBER(ge)
#undef MZ_WITH_NUMBER

}  // namespace mezzo
