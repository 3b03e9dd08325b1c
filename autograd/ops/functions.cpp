#include "functions.h"

#include "../../tensor/core/elementwise.h"
#include "../../tensor/core/elementwise_info.h"
#include "../../tensor/text/text.h"

namespace mezzo {

Tensor acos(const Tensor& x) { return apply<op::Acos>(x); }
Tensor acosh(const Tensor& x) { return apply<op::Acosh>(x); }
Tensor asin(const Tensor& x) { return apply<op::Asin>(x); }
Tensor asinh(const Tensor& x) { return apply<op::Asinh>(x); }
Tensor atan(const Tensor& x) { return apply<op::Atan>(x); }
Tensor atanh(const Tensor& x) { return apply<op::Atanh>(x); }
Tensor cos(const Tensor& x) { return apply<op::Cos>(x); }
Tensor cosh(const Tensor& x) { return apply<op::Cosh>(x); }
Tensor erf(const Tensor& x) { return apply<op::Erf>(x); }
Tensor erfc(const Tensor& x) { return apply<op::Erfc>(x); }
Tensor erfinv(const Tensor& x) { return apply<op::Erfinv>(x); }
Tensor exp(const Tensor& x) { return apply<op::Exp>(x); }
Tensor exp2(const Tensor& x) { return apply<op::Exp2>(x); }
Tensor expm1(const Tensor& x) { return apply<op::Expm1>(x); }
Tensor log(const Tensor& x) { return apply<op::Log>(x); }
Tensor log10(const Tensor& x) { return apply<op::Log10>(x); }
Tensor log1p(const Tensor& x) { return apply<op::Log1p>(x); }
Tensor log2(const Tensor& x) { return apply<op::Log2>(x); }
Tensor logit(const Tensor& x) { return apply<op::Logit>(x); }
Tensor logit(const Tensor& x, double eps) {
  if (!(eps >= 0 && eps <= 0.5))
    fail<ValueError>(
        "logit", {.what = "eps is out of range", .got = str(eps), .expected = "0 <= eps <= 0.5"});
  return apply_with<op::Logit>({eps}, x);
}
Tensor sin(const Tensor& x) { return apply<op::Sin>(x); }
Tensor sinh(const Tensor& x) { return apply<op::Sinh>(x); }
Tensor tan(const Tensor& x) { return apply<op::Tan>(x); }

const Tensor& acos_(const Tensor& self) { return apply_in_place<op::Acos>({}, self); }
const Tensor& acosh_(const Tensor& self) { return apply_in_place<op::Acosh>({}, self); }
const Tensor& asin_(const Tensor& self) { return apply_in_place<op::Asin>({}, self); }
const Tensor& asinh_(const Tensor& self) { return apply_in_place<op::Asinh>({}, self); }
const Tensor& atan_(const Tensor& self) { return apply_in_place<op::Atan>({}, self); }
const Tensor& atanh_(const Tensor& self) { return apply_in_place<op::Atanh>({}, self); }
const Tensor& cos_(const Tensor& self) { return apply_in_place<op::Cos>({}, self); }
const Tensor& cosh_(const Tensor& self) { return apply_in_place<op::Cosh>({}, self); }
const Tensor& erf_(const Tensor& self) { return apply_in_place<op::Erf>({}, self); }
const Tensor& erfc_(const Tensor& self) { return apply_in_place<op::Erfc>({}, self); }
const Tensor& erfinv_(const Tensor& self) { return apply_in_place<op::Erfinv>({}, self); }
const Tensor& exp_(const Tensor& self) { return apply_in_place<op::Exp>({}, self); }
const Tensor& exp2_(const Tensor& self) { return apply_in_place<op::Exp2>({}, self); }
const Tensor& expm1_(const Tensor& self) { return apply_in_place<op::Expm1>({}, self); }
const Tensor& log_(const Tensor& self) { return apply_in_place<op::Log>({}, self); }
const Tensor& log10_(const Tensor& self) { return apply_in_place<op::Log10>({}, self); }
const Tensor& log1p_(const Tensor& self) { return apply_in_place<op::Log1p>({}, self); }
const Tensor& log2_(const Tensor& self) { return apply_in_place<op::Log2>({}, self); }
const Tensor& logit_(const Tensor& self) { return apply_in_place<op::Logit>({}, self); }
const Tensor& sin_(const Tensor& self) { return apply_in_place<op::Sin>({}, self); }
const Tensor& sinh_(const Tensor& self) { return apply_in_place<op::Sinh>({}, self); }
const Tensor& tan_(const Tensor& self) { return apply_in_place<op::Tan>({}, self); }

}  // namespace mezzo
