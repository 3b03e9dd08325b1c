#include "functions.h"

#include "../../text/text.h"
#include "common_dtype.h"

namespace mezzo {

MZ_FUNCTIONS(MZ_DEFINE_FUNCTION)

Tensor logit(const Tensor& x) { return apply<op::Logit>(x); }
Tensor logit(const Tensor& x, double eps) {
  if (!(eps >= 0 && eps <= 0.5))
    fail<ValueError>(
        "logit", {.what = "eps is out of range", .got = str(eps), .expected = "0 <= eps <= 0.5"});
  return apply_with<op::Logit>({eps}, x);
}

const Tensor& logit_(const Tensor& self) { return apply_in_place<op::Logit>({}, self); }

}  // namespace mezzo
