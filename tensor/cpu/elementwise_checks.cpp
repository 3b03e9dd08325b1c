// The values integer kernels cannot take: checked before anything is written.
#include "../text.h"
#include "elementwise_kernel.h"

namespace mezzo::cpu_kernels {

void require_integers(const OpRow& row, IntegerDomain domain, const Tensor& x) {
  const CastScope no_casts(nullptr);
  const Tensor values = x.detach().to(DType::i64).contiguous();
  const std::int64_t* v = values.data<std::int64_t>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    if (domain == IntegerDomain::not_zero ? v[i] != 0 : v[i] >= 0) continue;
    const bool by_zero = domain == IntegerDomain::not_zero;
    fail<ValueError>(row.traits.name,
                     {.what = by_zero ? "integer division by zero" : "integers to a negative integer power",
                      .got = str(v[i], " at element ", i, " of ", x),
                      .expected = by_zero ? "divisors other than 0" : "exponents >= 0",
                      .hint = "use x.to(f32)"});
  }
}

}  // namespace mezzo::cpu_kernels
