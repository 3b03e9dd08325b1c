// The gradient of the cross product.
#include "../../tensor/ops/cross.h"

#include "../ops/contraction.h"
#include "wide.h"

namespace mezzo::op {

Grads Cross::backward(const Saved& saved, const Grads& gy) {
  const CrossOptions options{.dim = saved.attrs<Cross>().dim};
  const Tensor g = wide(gy[0]);
  Grads grads(2);
  if (saved.wants(0)) grads[0] = cross(wide(saved.inputs[1]), g, options);
  if (saved.wants(1)) grads[1] = cross(g, wide(saved.inputs[0]), options);
  return grads;
}

}  // namespace mezzo::op
