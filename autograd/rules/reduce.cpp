// Gradients of the reductions.
#include "../../tensor/ops/reduce.h"

#include "../../tensor/core/dispatch.h"
#include "../ops/operators.h"
#include "../ops/reduce.h"
#include "reduce_support.h"

namespace mezzo::op {

namespace {

/** Returns the gradient of an extreme: shared equally among the elements that equal it, or among
 *  the nans if it is nan. */
Grads share_among_ties(const Saved& saved, const ReduceAttrs& attrs, const Tensor& gy) {
  const Tensor& x = saved.inputs[0];
  const Tensor y = with_kept_dims(saved.outputs[0].detach(), x.shape(), attrs.dims);
  const Tensor g = with_kept_dims(gy, x.shape(), attrs.dims);
  const Tensor values = x.detach();
  const Tensor chosen = where(y == y, values == y, values != values);
  return {where(chosen, g / apply_with<Sum>({attrs.dims, true}, chosen), operand(0))};
}

}  // namespace

Grads Amax::backward(const Saved& saved, const Grads& gy) {
  return share_among_ties(saved, saved.attrs<Amax>(), gy[0]);
}

Grads Amin::backward(const Saved& saved, const Grads& gy) {
  return share_among_ties(saved, saved.attrs<Amin>(), gy[0]);
}

Grads Mean::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Mean>();
  const Tensor g = gy[0] / operand(static_cast<double>(reduced_count(saved.shape(0), attrs)));
  return {with_kept_dims(g, saved.shape(0), attrs.dims).expand(saved.shape(0))};
}

Grads Sum::backward(const Saved& saved, const Grads& gy) {
  return {with_kept_dims(gy[0], saved.shape(0), saved.attrs<Sum>().dims).expand(saved.shape(0))};
}

}  // namespace mezzo::op
