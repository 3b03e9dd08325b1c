// Gradients of the Cholesky decomposition and of triangular systems of equations.
#include "../../core/dispatch.h"
#include "../create.h"
#include "../elementwise/operators.h"
#include "../matmul/matmul.h"
#include "../shape/rearrange.h"
#include "linalg.h"
#include "linalg_gradient.h"
#include "triangle.h"

namespace mezzo {

Tensor identity_like(const Tensor& x, std::int64_t k) {
  return eye(k, {.dtype = x.dtype(), .device = x.device()});
}

Tensor triangular_solution(const Tensor& a, const Tensor& b, bool upper) {
  return apply_with<op::SolveTriangular>({.upper = upper}, a, b);
}

namespace op {

Grads Cholesky::backward(const Saved& saved, const Grads& gy) {
  const bool upper = saved.attrs<Cholesky>().upper;
  const Tensor l = upper ? transposed(saved.outputs[0]) : saved.outputs[0];
  const Tensor g = upper ? transposed(gy[0]) : gy[0];
  const Tensor product = matmul(transposed(l), g);
  const Tensor p = 0.5 * (tril(product) + tril(product, -1));
  const Tensor lt = transposed(l);
  const Tensor right = transposed(triangular_solution(lt, transposed(p), true));  // p l^-1
  const Tensor whole = triangular_solution(lt, right, true);
  return {0.5 * (whole + transposed(whole))};
}

Grads SolveTriangular::backward(const Saved& saved, const Grads& gy) {
  const bool upper = saved.attrs<SolveTriangular>().upper;
  const Tensor gb = triangular_solution(transposed(saved.inputs[0]), gy[0], !upper);
  Grads grads{{}, gb};
  if (saved.wants(0)) {
    const Tensor product = -matmul(gb, transposed(saved.outputs[0]));
    grads[0] = upper ? triu(product) : tril(product);
  }
  return grads;
}

}  // namespace op

}  // namespace mezzo
