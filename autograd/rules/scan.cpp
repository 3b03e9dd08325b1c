// Gradients of the cumulative sums and products.
#include "../../tensor/ops/scan.h"

#include "../../tensor/core/dispatch.h"
#include "../grad_mode.h"
#include "../ops/operators.h"
#include "running_product.h"
#include "wide.h"

namespace mezzo::op {

Grads Cumprod::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Cumprod>();
  if (!grad_enabled()) return {apply_with<CumprodBackward>(attrs, gy[0], saved.inputs[0])};
  const Tensor x = wide(saved.inputs[0]), g = wide(gy[0]);
  if (x.dim() == 0) return {g};
  return {product_before(x, attrs.dim) * backward_recurrence(g, x, attrs.dim)};
}

Grads Cumsum::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Cumsum>();
  return {apply_with<Cumsum>({attrs.dim, !attrs.reversed}, gy[0])};
}

}  // namespace mezzo::op
