// Selects the type an elementwise op computes in, and rejects integers outside its domain, before
// anything is written.
#include "../../core/elementwise_info.h"
#include "../../text/text.h"

namespace mezzo {

namespace {

/** Checks that all elements are in the domain. Errors: ValueError naming the first that is not. */
void require_integers(const OpInfo& info, IntegerDomain domain, const Tensor& x) {
  const CastScope no_casts(nullptr);
  const Tensor values = x.detach().to(cpu).to(DType::i64).contiguous();
  const std::int64_t* v = values.data<std::int64_t>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    if (domain == IntegerDomain::not_zero ? v[i] != 0 : v[i] >= 0) continue;
    const bool by_zero = domain == IntegerDomain::not_zero;
    fail<ValueError>(
        info.traits.name,
        {.what = by_zero ? "integer division by zero" : "integers to a negative integer power",
         .got = str(v[i], " at element ", i, " of ", x),
         .expected = by_zero ? "divisors other than 0" : "exponents >= 0",
         .hint = "use x.to(f32)"});
  }
}

}  // namespace

DType elementwise_arithmetic(const OpInfo& info, Inputs in) {
  const OpTraits& traits = info.traits;
  DType compute = compute_dtype(promoted_dtype(without_mask(traits, in)));
  if (traits.integers == Integers::to_float && compute == DType::i64) compute = DType::f32;
  if (traits.last_integers != IntegerDomain::any && compute == DType::i64)
    require_integers(info, traits.last_integers, in.back());
  return compute;
}

DType gradient_arithmetic(Inputs in) {
  for (const Tensor& x : in)
    if (x.defined() && x.dtype() == DType::f64 && !x.impl()->is_scalar) return DType::f64;
  return DType::f32;
}

}  // namespace mezzo
