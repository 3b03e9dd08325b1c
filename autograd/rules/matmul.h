// What the gradients of all matrix products come down to.
// Sees: tensor.
// Read next: matmul.cpp, addmm.cpp.
#pragma once

#include "../../tensor/op.h"

namespace mezzo {

/** alpha * x y summed over the batch dimensions that `batch` lacks or has at size 1: x is [..., p, q], y is [..., q, r], the result
 *  [batch, p, r]. The sum is part of the inner dimension, so it accumulates like one and rounds once. */
Tensor contract(const Tensor& x, const Tensor& y, const Shape& batch, double alpha = 1);

/** Gradients of both factors of alpha * a b, where g has the shape of matmul(a, b); undefined where not wanted. */
struct FactorGrads {
  Tensor a, b;
};
FactorGrads factor_grads(const Tensor& g, const Tensor& a, const Tensor& b, const Shape& shape_a,
                         const Shape& shape_b, bool want_a, bool want_b, double alpha = 1);

/** Gradients 1 and 2, of weight and bias, of a linear layer whose operands are x, weight, bias, ...; together in one op where both are wanted. */
void linear_parameter_grads(const Saved& saved, const Tensor& x, const Tensor& g, Grads& grads);

}  // namespace mezzo
