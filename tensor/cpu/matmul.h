// product: batches of matrix products over tensors of any strides; what the kernels of matmul, linear and addmm share.
// Sees: tensor.h.
// Read next: matmul.cpp, gemm.h.
#pragma once

#include "../tensor.h"

namespace mezzo::cpu_kernels {

/** alpha * a b + beta * addend; the addend broadcasts to the result and is undefined where beta is 0. */
struct ProductScale {
  double alpha = 1, beta = 0;
  Tensor addend = {};
};

/** c[..., m, n] = alpha * a[..., m, k] b[..., k, n] + beta * addend, batch dimensions broadcast to those of c. All of one floating dtype. */
void product(const Tensor& a, const Tensor& b, const Tensor& c, const ProductScale& scale = {});

/** x seen with a dimension of size 1 at `at`. */
Tensor with_unit_dim(const Tensor& x, int at);

}  // namespace mezzo::cpu_kernels
