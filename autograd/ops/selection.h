// Elementwise clamping and masking. pointwise.h says what elementwise functions have in common;
// ops.h explains the precision tags.
#pragma once

#include <optional>

#include "number.h"

namespace mezzo {

/** Limits that are numbers, rounded to x's dtype; at least one is required. */
struct ClampOptions {
  std::optional<double> min = {};  // not given: no lower limit
  std::optional<double> max = {};  // not given: no upper limit
};

/** Returns x clamped to [min, max], or max everywhere if min > max; nan stays nan. Integers stay
 *  integers when the limits are integers.
 *  Precision: match.
 *  Gradient: 1 where min < x < max, else 0; as in PyTorch 2.15 it is 0 at the limits and at nan
 *  too.
 *  Errors: ValueError without a limit. */
MZ_API Tensor clamp(const Tensor& x, const ClampOptions& options);
/** Returns x clamped to limits that broadcast to x; an undefined tensor is no limit.
 *  Gradient: g goes to a limit where the result is that limit, else to x. Where x equals one limit,
 *  both get half of it; where x equals both limits, x gets all of it: as in PyTorch 2.15.
 *  Errors: ValueError without a limit; ShapeError; DtypeError when floating-point dtypes differ. */
MZ_API Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max);
/** Overwrites self with clamp(self, options) and returns it. */
MZ_API const Tensor& clamp_(const Tensor& self, const ClampOptions& options);
/** Overwrites self with clamp(self, min, max) and returns it. */
MZ_API const Tensor& clamp_(const Tensor& self, const Tensor& min, const Tensor& max);

/** Returns x with `value`, rounded to x's dtype, where the bool mask is true; mask and x broadcast.
 *  Unlike PyTorch, the value is rounded once, not to f32 first.
 *  Precision: match.
 *  Gradient: for x, 0 where masked, else 1; a 0-dim value gets the sum over the masked positions.
 *  Errors: ShapeError; DtypeError for other masks. */
MZ_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);
/** Overwrites self with masked_fill(self, mask, value) and returns it. */
MZ_API const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, const Tensor& value);
/** Does the same with a C++ number as the value. */
template <Number S> Tensor masked_fill(const Tensor& x, const Tensor& mask, S value) {
  return masked_fill(x, mask, operand(value));
}
/** Does the same in place with a C++ number as the value. */
template <Number S> const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, S value) {
  return masked_fill_(self, mask, operand(value));
}

/** What nan_to_num puts in place of each. */
struct NanToNumOptions {
  double nan = 0;                     // in place of elements that are no numbers
  std::optional<double> posinf = {};  // for infinity; not given: the largest number of x's dtype
  std::optional<double> neginf = {};  // for -infinity; not given: the least number of x's dtype
};

/** Returns x with numbers in place of nan and infinities, rounded to x's dtype; integers stay as
 *  they are.
 *  Precision: match.
 *  Gradient: 1 where x is finite, else 0. */
MZ_API Tensor nan_to_num(const Tensor& x, const NanToNumOptions& options = {});
/** Overwrites self with nan_to_num(self, options) and returns it. */
MZ_API const Tensor& nan_to_num_(const Tensor& self, const NanToNumOptions& options = {});

/** Returns a where the bool condition is true, else b; all three broadcast.
 *  Precision: promote, for a and b; a number is rounded once to the dtype of the result.
 *  Gradient: g for each branch where it was chosen, exactly 0 elsewhere.
 *  Errors: ShapeError; DtypeError for other conditions. */
MZ_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
/** Does the same with a number in place of b. */
template <Number S> Tensor where(const Tensor& condition, const Tensor& a, S b) {
  return where(condition, a, operand(b));
}
/** Does the same with a number in place of a. */
template <Number S> Tensor where(const Tensor& condition, S a, const Tensor& b) {
  return where(condition, operand(a), b);
}
/** Does the same with two numbers. */
template <Number S, Number T> Tensor where(const Tensor& condition, S a, T b) {
  return where(condition, operand(a), operand(b));
}

}  // namespace mezzo
