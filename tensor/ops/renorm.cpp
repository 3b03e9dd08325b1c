// Shape rule of renorm.
#include "renorm.h"

#include "../core/registry.h"
#include "../text/text.h"
#include "require.h"

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

}  // namespace mezzo::op
