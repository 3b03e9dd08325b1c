#include "compare.h"

#include "../../core/dispatch.h"
#include "../../core/elementwise.h"
#include "../../core/elementwise_info.h"
#include "../../core/error.h"
#include "../../text/text.h"
#include "../reduce/reduce.h"
#include "common_dtype.h"
#include "operators.h"

namespace mezzo {

// Comparisons and their in-place forms.
#define MZ_COMPARISON(function, Op)                                        \
  Tensor function(const Tensor& a, const Tensor& b) {                      \
    return apply<op::Op>(in_common_dtype(a, b), in_common_dtype(b, a));    \
  }                                                                        \
  const Tensor& function##_(const Tensor& self, const Tensor& other) {     \
    return apply_in_place<op::Op>({}, self, in_common_dtype(other, self)); \
  }
MZ_COMPARISON(eq, Eq)
MZ_COMPARISON(ne, Ne)
MZ_COMPARISON(lt, Lt)
MZ_COMPARISON(le, Le)
MZ_COMPARISON(gt, Gt)
MZ_COMPARISON(ge, Ge)
#undef MZ_COMPARISON

bool equal(const Tensor& a, const Tensor& b) {
  if (!(a.shape() == b.shape())) return false;
  const ApiScope called("equal");
  const NoGrad no_grad;
  const Tensor same = eq(a, b).to(cpu);
  const bool* from = same.data<bool>();
  for (std::int64_t i = 0; i < same.numel(); ++i)
    if (!from[i]) return false;
  return true;
}

Tensor isclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  const ApiScope called("isclose");
  const NoGradNoCasts plain_ops;
  if (a.dtype() != b.dtype())
    fail<DtypeError>("isclose", {.what = "tensors of different dtypes are not compared",
                                 .got = str(a, " and ", b),
                                 .hint = "use a.to(b.dtype())"});
  if (!(options.rtol >= 0 && options.atol >= 0))
    fail<ValueError>("isclose", {.what = "a tolerance is negative or nan",
                                 .got = str("rtol ", options.rtol, ", atol ", options.atol),
                                 .expected = "numbers of at least 0"});
  const Tensor wide_a = a.to(DType::f64), wide_b = b.to(DType::f64);
  const Tensor difference = abs(wide_a - wide_b);
  Tensor close =
      (a == b) | (isfinite(difference) & (difference <= abs(wide_b) * options.rtol + options.atol));
  if (options.equal_nan) close = close | (isnan(a) & isnan(b));
  return close;
}

bool allclose(const Tensor& a, const Tensor& b, const CloseOptions& options) {
  const ApiScope called("allclose");
  return all(isclose(a, b, options)).item<bool>();
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
