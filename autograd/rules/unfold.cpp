// The gradients of unfold and fold, which are each other's adjoints.
#include "../../tensor/ops/unfold.h"

#include "../../tensor/core/dispatch.h"

namespace mezzo::op {

Grads Unfold::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Fold>(saved.attrs<Unfold>(), gy[0])};
}

Grads Fold::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Unfold>(saved.attrs<Fold>(), gy[0])};
}

}  // namespace mezzo::op
