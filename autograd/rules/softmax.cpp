// Gradients of softmax and log_softmax, and the composite of softmin.
#include "../../tensor/ops/softmax.h"

#include "../../tensor/core/dispatch.h"
#include "../grad_mode.h"
#include "../ops/operators.h"
#include "../ops/reduce.h"
#include "wide.h"

namespace mezzo::op {

Grads LogSoftmax::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<LogSoftmax>();
  if (!grad_enabled()) return {apply_with<LogSoftmaxBackward>(attrs, gy[0], saved.outputs[0])};
  const Tensor g = wide(gy[0]);
  return {g - exp(wide(saved.outputs[0])) * sum(g, attrs.dim, {.keepdim = true})};
}

Grads Softmax::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Softmax>();
  if (!grad_enabled()) return {apply_with<SoftmaxBackward>(attrs, gy[0], saved.outputs[0])};
  const Tensor g = wide(gy[0]), y = wide(saved.outputs[0]);
  return {y * (g - sum(g * y, attrs.dim, {.keepdim = true}))};
}

std::vector<Tensor> Softmin::composite(Inputs in, const Attrs& attrs) {
  return {apply_with<Softmax>(attrs, neg(in[0]))};
}

}  // namespace mezzo::op
