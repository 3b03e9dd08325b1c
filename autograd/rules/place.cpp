// Gradients of the ops that take elements from elsewhere: each other's adjoints.
#include "../../tensor/ops/place.h"

#include "../../tensor/dispatch.h"

namespace mezzo::op {

Grads PlaceFunctions::backward(const Saved& saved, const Grads& gy) {
  // The attributes have one type for all of these ops.
  return {apply_with<PlaceBackward>({saved.attrs<Pad>(), saved.shape(0)}, gy[0])};
}

Grads PlaceBackward::backward(const Saved& saved, const Grads& gy) {
  PlaceAttrs place = saved.attrs<PlaceBackward>().place;
  place.value = 0;
  return {apply_with<Pad>(place, gy[0])};
}

}  // namespace mezzo::op
