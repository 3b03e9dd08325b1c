// Gradients of the random ops.
#include "../../tensor/ops/random.h"

#include "../ops/operators.h"

namespace mezzo::op {

Grads RandomFill::backward(const Saved&, const Grads&) { return {Tensor{}}; }

Grads Dropout::backward(const Saved& saved, const Grads& gy) {
  const double p = saved.attrs<Dropout>().p;
  if (p == 1) return {gy[0] * 0.0};
  // Dropped elements get an exact 0 even where the incoming gradient is inf or nan.
  return {where(saved.outputs[1], gy[0] / (1 - p), operand(0.0))};
}

}  // namespace mezzo::op
