// Elementwise choice between values: limits and masks. Shape, broadcasting and in-place forms: see pointwise.h.
// Sees: number.h.
// Read next: ../../tensor/elementwise/selection.h (the formulas).
#pragma once

#include <optional>

#include "number.h"

namespace mezzo {

/** Limits that are numbers, taken in x's dtype; at least one. */
struct ClampOptions {
  std::optional<double> min = {};
  std::optional<double> max = {};
};

/** x limited to [min, max], max everywhere where min > max; nan stays. Integers stay when the limits are integers.
 *  Precision: follows the input.
 *  Gradient: 1 where min < x < max, else 0: at the limits and at nan too, as in PyTorch 2.15.
 *  Errors: ValueError without a limit. */
MZ_API Tensor clamp(const Tensor& x, const ClampOptions& options);
/** The same with limits that broadcast to x; an undefined one is no limit. A limit gets the gradient
 *  where it binds; where x is exactly a limit both get half of it, where x is both limits x gets all
 *  of it: as in PyTorch 2.15.
 *  Errors: ValueError without a limit; ShapeError; DtypeError when floating dtypes differ. */
MZ_API Tensor clamp(const Tensor& x, const Tensor& min, const Tensor& max);
MZ_API const Tensor& clamp_(const Tensor& self, const ClampOptions& options);
MZ_API const Tensor& clamp_(const Tensor& self, const Tensor& min, const Tensor& max);

/** x with `value`, taken in x's dtype, where the bool mask holds; mask and x broadcast. Precision: follows the input.
 *  Gradient: x 0 where masked, else 1; a 0-dim value gets the sum over the masked places. Errors: ShapeError; DtypeError for other masks. */
MZ_API Tensor masked_fill(const Tensor& x, const Tensor& mask, const Tensor& value);
MZ_API const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, const Tensor& value);
template <Number S> Tensor masked_fill(const Tensor& x, const Tensor& mask, S value) {
  return masked_fill(x, mask, operand(value));
}
template <Number S> const Tensor& masked_fill_(const Tensor& self, const Tensor& mask, S value) {
  return masked_fill_(self, mask, operand(value));
}

/** a where condition (bool) holds, else b; all three broadcast. Precision: widest of a and b.
 *  Gradient: each branch gets it where it was taken, exactly 0 elsewhere. Errors: ShapeError; DtypeError for other conditions. */
MZ_API Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
template <Number S> Tensor where(const Tensor& condition, const Tensor& a, S b) {
  return where(condition, a, operand(b));
}
template <Number S> Tensor where(const Tensor& condition, S a, const Tensor& b) {
  return where(condition, operand(a), b);
}
template <Number S, Number T> Tensor where(const Tensor& condition, S a, T b) {
  return where(condition, operand(a), operand(b));
}

}  // namespace mezzo
