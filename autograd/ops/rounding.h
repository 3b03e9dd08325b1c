// Elementwise sign and rounding; integers stay integers. pointwise.h says what elementwise
// functions have in common. Precision: match (explained in ops.h).
#pragma once

#include "../../tensor/core/tensor.h"

namespace mezzo {

/** Returns the absolute value.
 *  Gradient: sign(x), 0 at 0. */
MZ_API Tensor abs(const Tensor& x);
/** Returns the smallest integer not less than x, in x's dtype.
 *  Gradient: 0. */
MZ_API Tensor ceil(const Tensor& x);
/** Returns the largest integer not greater than x, in x's dtype.
 *  Gradient: 0. */
MZ_API Tensor floor(const Tensor& x);
/** Returns x - trunc(x), which has the sign of x.
 *  Gradient: 1. */
MZ_API Tensor frac(const Tensor& x);
/** Returns -x.
 *  Gradient: -1. */
MZ_API Tensor neg(const Tensor& x);
/** Returns the nearest integer; halves go to the even one.
 *  Gradient: 0. */
MZ_API Tensor round(const Tensor& x);
/** Returns -1, 0 or 1; nan stays nan, as in NumPy. PyTorch returns 0 for nan, which would hide an
 *  overflow from the loss scaler.
 *  Gradient: 0. */
MZ_API Tensor sign(const Tensor& x);
/** Returns x rounded towards 0.
 *  Gradient: 0. */
MZ_API Tensor trunc(const Tensor& x);

// In-place forms.
/** Overwrites self with abs(self) and returns it. */
MZ_API const Tensor& abs_(const Tensor& self);
/** Overwrites self with ceil(self) and returns it. */
MZ_API const Tensor& ceil_(const Tensor& self);
/** Overwrites self with floor(self) and returns it. */
MZ_API const Tensor& floor_(const Tensor& self);
/** Overwrites self with frac(self) and returns it. */
MZ_API const Tensor& frac_(const Tensor& self);
/** Overwrites self with neg(self) and returns it. */
MZ_API const Tensor& neg_(const Tensor& self);
/** Overwrites self with round(self) and returns it. */
MZ_API const Tensor& round_(const Tensor& self);
/** Overwrites self with sign(self) and returns it. */
MZ_API const Tensor& sign_(const Tensor& self);
/** Overwrites self with trunc(self) and returns it. */
MZ_API const Tensor& trunc_(const Tensor& self);

}  // namespace mezzo
