// Gradients of the added matrix products.
#include "../../tensor/ops/addmm.h"

#include "../../tensor/core/dispatch.h"
#include "../ops/create.h"
#include "../ops/operators.h"
#include "../ops/reduce.h"
#include "matmul.h"

namespace mezzo::op {

namespace {

/** Returns the gradient of the added tensor: beta times the incoming gradient, exactly zero if the
 *  tensor was not read. */
Tensor addend_grad(const Saved& saved, const Tensor& g, double beta) {
  if (beta == 0) return zeros(saved.shape(0), {.dtype = g.dtype(), .device = g.device()});
  const Tensor summed = sum_to(g, saved.shape(0));
  return beta == 1 ? summed : summed * beta;
}

/** Returns the gradients of an op in which operands 1 and 2 are multiplied as by matmul. */
Grads added_product_grads(const Saved& saved, const Tensor& g, const AddmmAttrs& attrs) {
  Grads grads(3);
  if (saved.wants(0)) grads[0] = addend_grad(saved, g, attrs.beta);
  FactorGrads factors = factor_grads(g, saved.inputs[1], saved.inputs[2], saved.shape(1),
                                     saved.shape(2), saved.wants(1), saved.wants(2), attrs.alpha);
  grads[1] = std::move(factors.a);
  grads[2] = std::move(factors.b);
  return grads;
}

}  // namespace

Grads Addmm::backward(const Saved& saved, const Grads& gy) {
  return added_product_grads(saved, gy[0], saved.attrs<Addmm>());
}

Grads Addmv::backward(const Saved& saved, const Grads& gy) {
  return added_product_grads(saved, gy[0], saved.attrs<Addmv>());
}

Grads Baddbmm::backward(const Saved& saved, const Grads& gy) {
  return added_product_grads(saved, gy[0], saved.attrs<Baddbmm>());
}

Grads Addbmm::backward(const Saved& saved, const Grads& gy) {
  const AddmmAttrs& attrs = saved.attrs<Addbmm>();
  Grads grads(3);
  if (saved.wants(0)) grads[0] = addend_grad(saved, gy[0], attrs.beta);
  // All pairs of matrices have the same incoming gradient.
  FactorGrads factors =
      factor_grads(gy[0].unsqueeze(0), saved.inputs[1], saved.inputs[2], saved.shape(1),
                   saved.shape(2), saved.wants(1), saved.wants(2), attrs.alpha);
  grads[1] = std::move(factors.a);
  grads[2] = std::move(factors.b);
  return grads;
}

Grads Addr::backward(const Saved& saved, const Grads& gy) {
  const AddmmAttrs& attrs = saved.attrs<Addr>();
  const Tensor& g = gy[0];
  Grads grads(3);
  if (saved.wants(0)) grads[0] = addend_grad(saved, g, attrs.beta);
  if (saved.wants(1))
    grads[1] = contract(g, saved.inputs[2].unsqueeze(1), {}, attrs.alpha).squeeze(1);
  if (saved.wants(2))
    grads[2] = contract(saved.inputs[1].unsqueeze(0), g, {}, attrs.alpha).squeeze(0);
  return grads;
}

}  // namespace mezzo::op
