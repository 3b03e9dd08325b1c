// The arithmetic, comparison and bit operators of tensors, with tensors and with C++ numbers.
#pragma once

#include "pointwise.h"

namespace mezzo {

/** Returns neg(x). */
inline Tensor operator-(const Tensor& x) { return neg(x); }
/** Returns bitwise_not(x). */
inline Tensor operator~(const Tensor& x) { return bitwise_not(x); }
/** Returns logical_not(x). */
inline Tensor operator!(const Tensor& x) { return logical_not(x); }

#define MZ_OPERATOR(symbol, function)                                                        \
  /** Calls the function of that operation. */                                               \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return function(a, b); } \
  /** As above, with a number on the right. */                                               \
  template <Number S> Tensor operator symbol(const Tensor& a, S b) {                         \
    return function(a, operand(b));                                                          \
  }                                                                                          \
  /** As above, with a number on the left. */                                                \
  template <Number S> Tensor operator symbol(S a, const Tensor& b) {                         \
    return function(operand(a), b);                                                          \
  }
MZ_OPERATOR(+, add)
MZ_OPERATOR(-, sub)
MZ_OPERATOR(*, mul)
MZ_OPERATOR(%, remainder)
MZ_OPERATOR(&, bitwise_and)
MZ_OPERATOR(|, bitwise_or)
MZ_OPERATOR(^, bitwise_xor)
MZ_OPERATOR(>, gt)
MZ_OPERATOR(<, lt)
MZ_OPERATOR(>=, ge)
MZ_OPERATOR(<=, le)
MZ_OPERATOR(==, eq)
MZ_OPERATOR(!=, ne)
#undef MZ_OPERATOR

/** Returns div(a, b). */
inline Tensor operator/(const Tensor& a, const Tensor& b) { return div(a, b); }
/** Returns div(a, b) for a number b. */
template <Number S> Tensor operator/(const Tensor& a, S b) { return div(a, operand(b)); }
/** Returns rdiv(b, a). Its inputs are cast to f32, unlike those of the quotient of two tensors: the
 *  reciprocal of a small f16 number overflows. */
template <Number S> Tensor operator/(S a, const Tensor& b) {
  return rdiv(b, static_cast<double>(a));
}

#define MZ_COMPOUND(symbol, function)                                               \
  /** Calls the in-place function of that operation; returns self. */               \
  inline const Tensor& operator symbol(const Tensor & self, const Tensor & other) { \
    return function(self, other);                                                   \
  }                                                                                 \
  /** As above, with a number. */                                                   \
  template <Number S> const Tensor& operator symbol(const Tensor & self, S other) { \
    return function(self, operand(other));                                          \
  }
MZ_COMPOUND(+=, add_)
MZ_COMPOUND(-=, sub_)
MZ_COMPOUND(*=, mul_)
MZ_COMPOUND(/=, div_)
MZ_COMPOUND(%=, remainder_)
#undef MZ_COMPOUND

}  // namespace mezzo
