// Gradients of resizing: the adjoint map, and the gradient of the adjoint, which is the map itself.
#include "../../tensor/ops/interpolate.h"

#include "../../tensor/core/dispatch.h"

namespace mezzo::op {

Grads InterpolateFunctions::backward(const Saved& saved, const Grads& gy) {
  // All of these ops have attributes of one type.
  return {apply_with<InterpolateBackward>(
      {saved.attrs<Interpolate>(), saved.shape(0), saved.input_meta[0].format}, gy[0])};
}

Grads InterpolateBackward::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Interpolate>(saved.attrs<InterpolateBackward>().map, gy[0])};
}

}  // namespace mezzo::op
