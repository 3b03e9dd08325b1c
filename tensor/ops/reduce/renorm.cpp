// Shape rules and gradients of the ops in renorm.h.
#include "renorm.h"

#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../elementwise/operators.h"
#include "../require.h"
#include "../wide.h"
#include "reduce.h"
#include "reduce_gradient.h"

namespace mezzo::op {

SliceNorms slice_norms(const Tensor& x, const Renorm::Attrs& attrs) {
  const int dim = wrap_dim(attrs.dim, x.dim(), Renorm::traits.name.data());
  Shape shape = Shape::filled(x.dim(), 1);
  shape[dim] = x.size(dim);
  const std::uint32_t others = ((1u << x.dim()) - 1) & ~(1u << dim);
  return {{.p = attrs.p, .dims = others, .keepdim = true}, shape};
}

OutSpecs Renorm::infer(Inputs in, const Attrs& attrs) {
  require_floating_operands(traits.name, in);
  if (!(attrs.p > 0))
    fail<ValueError>(traits.name,
                     {.what = "p out of range", .got = str(attrs.p), .expected = "more than 0"});
  if (!(attrs.maxnorm >= 0))
    fail<ValueError>(
        traits.name,
        {.what = "maxnorm out of range", .got = str(attrs.maxnorm), .expected = "0 or more"});
  if (in[0].dim() < 2)
    fail<ShapeError>(
        traits.name,
        {.what = "the tensor has too few dimensions", .got = str(in[0]), .expected = "2 or more"});
  wrap_dim(attrs.dim, in[0].dim(), traits.name.data());
  return {{in[0].shape(), in[0].dtype()}};
}

std::span<OpInfo* const> renorm_ops() { return infos_of(RenormOps{}); }

// The gradient of renorm: through the norm for the scaled slices, unchanged for the others.

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

namespace mezzo {

Tensor renorm(const Tensor& x, double p, std::int64_t dim, double maxnorm) {
  return apply_with<op::Renorm>({p, dim, maxnorm}, x);
}

const Tensor& renorm_(const Tensor& self, double p, std::int64_t dim, double maxnorm) {
  return apply_in_place<op::Renorm>({p, dim, maxnorm}, self);
}

}  // namespace mezzo
