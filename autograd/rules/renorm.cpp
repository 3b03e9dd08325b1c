// The gradient of renorm: through the norm for the scaled slices, unchanged for the others.
#include "../../tensor/ops/renorm.h"

#include "../../tensor/core/dispatch.h"
#include "../ops/operators.h"
#include "../ops/reduce.h"
#include "norm_gradient.h"
#include "wide.h"

namespace mezzo::op {

Grads Renorm::backward(const Saved& saved, const Grads& gy) {
  const Attrs& attrs = saved.attrs<Renorm>();
  if (saved.inputs[0].numel() == 0) return {gy[0]};
  const Tensor x = wide(saved.inputs[0]), g = wide(gy[0]);
  const int dim = wrap_dim(attrs.dim, x.dim(), traits.name.data());
  const NormAttrs norm{.p = attrs.p, .dims = ((1u << x.dim()) - 1) & ~(1u << dim), .keepdim = true};
  const Tensor n = apply_with<VectorNorm>(norm, x);
  const Tensor inverse = 1.0 / (n + kAddedToNorm);
  const Tensor through_norm =
      norm_gradient(x, n, inverse * apply_with<Sum>({norm.dims, true}, x * g), norm);
  return {where(n > attrs.maxnorm, attrs.maxnorm * inverse * (g - through_norm), g)};
}

}  // namespace mezzo::op
