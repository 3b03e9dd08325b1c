// Shared parts of the gradients of matrix products.
#pragma once

#include "../../core/op.h"

namespace mezzo {

/** Returns alpha * x y summed over the batch dimensions that `batch` lacks or has at size 1. x is
 *  [..., p, q], y is [..., q, r], the result [batch, p, r]. The sum is computed as a part of the
 *  inner dimension, so it accumulates and rounds once with it. */
Tensor contract(const Tensor& x, const Tensor& y, const Shape& batch, double alpha = 1);

/** Gradients of the factors of a product; undefined where not wanted. */
struct FactorGrads {
  Tensor a, b;
};
/** Returns the gradients of both factors of alpha * a b, where g has the shape of matmul(a, b). */
FactorGrads factor_grads(const Tensor& g, const Tensor& a, const Tensor& b, const Shape& shape_a,
                         const Shape& shape_b, bool want_a, bool want_b, double alpha = 1);

/** Sets gradients 1 and 2, of weight and bias, of a linear layer with operands x, weight, bias,
 *  .... Uses one op, unless the backward pass is recorded. */
void linear_parameter_grads(const Saved& saved, const Tensor& x, const Tensor& g, Grads& grads);

}  // namespace mezzo
