// Kernel of renorm: a norm per slice, then a product with one factor per slice.
#include "renorm.h"

#include "../../core/dispatch.h"
#include "../../core/elementwise_info.h"
#include "../../cpu/block_io.h"
#include "../elementwise/arithmetic.h"

namespace mezzo::op {

void Renorm::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  const Tensor& x = in[0];
  if (x.numel() == 0) return;
  const SliceNorms norms = slice_norms(x, attrs);
  Tensor factors = empty_tensor(norms.shape, compute_dtype(x.dtype()), x.device());
  VectorNorm::cpu(in, {&factors, 1}, norms.attrs);
  visit_floating_compute(x.dtype(), [&]<class C>(std::type_identity<C>) {
    const C most = static_cast<C>(attrs.maxnorm);
    C* factor = factors.data<C>();
    for (std::int64_t i = 0; i < factors.numel(); ++i) factor[i] = renorm_factor(factor[i], most);
  });
  const Tensor operands[] = {x, factors};
  constexpr NoAttrs kNone;
  op_info<Mul>.kernel[0](op_info<Mul>, {operands, 2}, out, &kNone);
}

}  // namespace mezzo::op
