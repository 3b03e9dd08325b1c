#include "compare.h"

#include "../../tensor/call_name.h"
#include "../../tensor/elementwise.h"
#include "../../tensor/elementwise_row.h"
#include "../grad_mode.h"

namespace mezzo {

Tensor eq(const Tensor& a, const Tensor& b) { return apply<op::Eq>(a, b); }
Tensor ne(const Tensor& a, const Tensor& b) { return apply<op::Ne>(a, b); }
Tensor lt(const Tensor& a, const Tensor& b) { return apply<op::Lt>(a, b); }
Tensor le(const Tensor& a, const Tensor& b) { return apply<op::Le>(a, b); }
Tensor gt(const Tensor& a, const Tensor& b) { return apply<op::Gt>(a, b); }
Tensor ge(const Tensor& a, const Tensor& b) { return apply<op::Ge>(a, b); }
const Tensor& eq_(const Tensor& self, const Tensor& other) { return apply_in_place<op::Eq>({}, self, other); }
const Tensor& ne_(const Tensor& self, const Tensor& other) { return apply_in_place<op::Ne>({}, self, other); }
const Tensor& lt_(const Tensor& self, const Tensor& other) { return apply_in_place<op::Lt>({}, self, other); }
const Tensor& le_(const Tensor& self, const Tensor& other) { return apply_in_place<op::Le>({}, self, other); }
const Tensor& gt_(const Tensor& self, const Tensor& other) { return apply_in_place<op::Gt>({}, self, other); }
const Tensor& ge_(const Tensor& self, const Tensor& other) { return apply_in_place<op::Ge>({}, self, other); }

bool equal(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape())) return false;
  const CallName called("equal");
  const NoGrad no_grad;
  const Tensor same = eq(a, b).to(cpu);
  const bool* from = same.data<bool>();
  for (std::int64_t i = 0; i < same.numel(); ++i)
    if (!from[i]) return false;
  return true;
}

Tensor isfinite(const Tensor& x) { return apply<op::Isfinite>(x); }
Tensor isinf(const Tensor& x) { return apply<op::Isinf>(x); }
Tensor isnan(const Tensor& x) { return apply<op::Isnan>(x); }

Tensor logical_and(const Tensor& a, const Tensor& b) { return apply<op::LogicalAnd>(a, b); }
Tensor logical_not(const Tensor& x) { return apply<op::LogicalNot>(x); }
Tensor logical_or(const Tensor& a, const Tensor& b) { return apply<op::LogicalOr>(a, b); }
Tensor logical_xor(const Tensor& a, const Tensor& b) { return apply<op::LogicalXor>(a, b); }

Tensor bitwise_and(const Tensor& a, const Tensor& b) { return apply<op::BitwiseAnd>(a, b); }
Tensor bitwise_not(const Tensor& x) {
  return x.dtype() == DType::boolean ? logical_not(x) : apply<op::BitwiseNot>(x);
}
Tensor bitwise_or(const Tensor& a, const Tensor& b) { return apply<op::BitwiseOr>(a, b); }
Tensor bitwise_xor(const Tensor& a, const Tensor& b) { return apply<op::BitwiseXor>(a, b); }

}  // namespace mezzo
