// Elementwise sign and rounding; integers stay integers. Shape and in-place forms: see pointwise.h.
// Sees: tensor.
// Read next: ../../tensor/elementwise/rounding.h (the formulas).
#pragma once

#include "../../tensor/tensor.h"

namespace mezzo {

/** Absolute value. Precision: follows the input. Gradient: sign(x), 0 at 0. */
MZ_API Tensor abs(const Tensor& x);
/** Smallest integer not below x, in x's dtype. Precision: follows the input. Gradient: 0. */
MZ_API Tensor ceil(const Tensor& x);
/** Largest integer not above x, in x's dtype. Precision: follows the input. Gradient: 0. */
MZ_API Tensor floor(const Tensor& x);
/** x - trunc(x), with the sign of x. Precision: follows the input. Gradient: 1. */
MZ_API Tensor frac(const Tensor& x);
/** -x. Precision: follows the input. Gradient: -1. */
MZ_API Tensor neg(const Tensor& x);
/** Nearest integer, halves to the even one. Precision: follows the input. Gradient: 0. */
MZ_API Tensor round(const Tensor& x);
/** -1, 0 or 1; nan stays, as in NumPy. PyTorch gives 0 for it, which would hide an overflow from the
 *  loss scaler. Precision: follows the input. Gradient: 0. */
MZ_API Tensor sign(const Tensor& x);
/** x without its fraction: rounded towards 0. Precision: follows the input. Gradient: 0. */
MZ_API Tensor trunc(const Tensor& x);

MZ_API const Tensor& abs_(const Tensor& self);
MZ_API const Tensor& ceil_(const Tensor& self);
MZ_API const Tensor& floor_(const Tensor& self);
MZ_API const Tensor& frac_(const Tensor& self);
MZ_API const Tensor& neg_(const Tensor& self);
MZ_API const Tensor& round_(const Tensor& self);
MZ_API const Tensor& sign_(const Tensor& self);
MZ_API const Tensor& trunc_(const Tensor& self);

}  // namespace mezzo
