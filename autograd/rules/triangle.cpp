// Gradients of tril and triu: the same triangle of g.
#include "../../tensor/ops/triangle.h"

#include "../../tensor/core/dispatch.h"

namespace mezzo::op {

Grads Tril::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Tril>(saved.attrs<Tril>(), gy[0])};
}

Grads Triu::backward(const Saved& saved, const Grads& gy) {
  return {apply_with<Triu>(saved.attrs<Triu>(), gy[0])};
}

}  // namespace mezzo::op
