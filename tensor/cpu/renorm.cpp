// Kernel of renorm: a norm per slice, then a product with one factor per slice.
#include "../ops/renorm.h"

#include "../dispatch.h"
#include "../elementwise/arithmetic.h"
#include "../elementwise_row.h"
#include "../ops/statistics.h"
#include "block_io.h"

namespace mezzo::op {

void Renorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor& x = in[0];
  if (x.numel() == 0) return;
  const int dim = wrap_dim(attrs.dim, x.dim(), traits.name.data());
  Shape shape = Shape::filled(x.dim(), 1);
  shape[dim] = x.size(dim);
  Tensor factors = empty_tensor(shape, compute_dtype(x.dtype()), x.device());
  const std::uint32_t others = ((1u << x.dim()) - 1) & ~(1u << dim);
  VectorNorm::cpu(in, {&factors, 1}, {.p = attrs.p, .dims = others, .keepdim = true});
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    const C most = static_cast<C>(attrs.maxnorm);
    C* factor = factors.data<C>();
    for (std::int64_t i = 0; i < factors.numel(); ++i)
      factor[i] = factor[i] > most ? most / (factor[i] + static_cast<C>(kAddedToNorm)) : C(1);
  });
  const Tensor operands[] = {x, factors};
  constexpr NoAttrs kNone;
  row<Mul>.kernel[0](row<Mul>, {operands, 2}, out, &kNone);
}

}  // namespace mezzo::op
