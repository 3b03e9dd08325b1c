// Gradients of the random ops.
#include "../../tensor/ops/random.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/core/elementwise_info.h"
#include "../../tensor/elementwise/selection.h"

namespace mezzo::op {

Grads RandomFill::backward(const Saved&, const Grads&) { return {Tensor{}}; }

Grads Dropout::backward(const Saved& saved, const Grads& gy) {
  // Dropped elements get an exact 0 even where the incoming gradient is inf or nan.
  return {
      apply_with<MaskedScale>({dropout_scale(saved.attrs<Dropout>().p)}, gy[0], saved.outputs[1])};
}

}  // namespace mezzo::op
