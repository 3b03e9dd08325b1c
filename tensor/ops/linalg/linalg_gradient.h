// Matrix arithmetic for the gradients of the ops on matrices.
#pragma once

#include "../../core/tensor.h"

namespace mezzo {

/** Returns the transposed matrices of x [*,m,n]. */
inline Tensor transposed(const Tensor& x) { return x.transpose(-2, -1); }

/** Returns the identity matrix of size k by k with the dtype and device of x. */
Tensor identity_like(const Tensor& x, std::int64_t k);

/** Returns a^-1 b for triangular matrices of which one triangle is read. */
Tensor triangular_solution(const Tensor& a, const Tensor& b, bool upper);

/** Throws ValueError in the gradient of the vectors of eigh or svd: `values` [*,k], sorted, holds
 *  two that are equal to rounding. */
void refuse_repeated(const char* op, const Tensor& values, const char* what);

/** Returns the largest difference between sorted values that counts as rounding, [*]. */
Tensor rounding_of(const Tensor& values);

}  // namespace mezzo
