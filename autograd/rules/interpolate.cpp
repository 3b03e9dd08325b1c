// Gradients of resizing: the adjoint map, and the map itself.
#include "../../tensor/ops/interpolate.h"

#include "../../tensor/dispatch.h"

namespace mezzo::op {

Grads InterpolateFunctions::backward(const Saved& saved, const Grads& gy) {
  // The attributes have one type for all of these ops.
  return {apply_with<InterpolateBackward>({saved.attrs<Interpolate>(), saved.shape(0), saved.metas[0].format},
                                          gy[0])};
}

Grads InterpolateBackward::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Interpolate>(saved.attrs<InterpolateBackward>().map, gy[0])};
}

}  // namespace mezzo::op
