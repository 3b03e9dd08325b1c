#include "power.h"

#include "common_dtype.h"

namespace mezzo {

MZ_POWERS(MZ_DEFINE_FUNCTION)

namespace {

/** Returns attributes that select a shorter formula for some exponents that are C++ numbers. */
op::Pow::Attrs pow_attrs(const Tensor& exponent) {
  using Exponent = op::Pow::Exponent;
  if (!exponent.defined() || !exponent.impl()->is_scalar) return {};
  const bool integral = exponent.dtype() == DType::i64;
  const double e =
      integral ? static_cast<double>(*exponent.data<std::int64_t>()) : *exponent.data<double>();
  if (e == 2) return {Exponent::two};
  if (e == 3) return {Exponent::three};
  if (e == -1) return {Exponent::minus_one};
  if (e == 0.5) return {Exponent::one_half};
  return {};
}

}  // namespace

Tensor pow(const Tensor& x, const Tensor& exponent) {
  return apply_with<op::Pow>(pow_attrs(exponent), x, exponent);
}
Tensor rdiv(const Tensor& x, double numerator) { return apply_with<op::Rdiv>({numerator}, x); }

const Tensor& pow_(const Tensor& self, const Tensor& exponent) {
  return apply_in_place<op::Pow>(pow_attrs(exponent), self, exponent);
}

}  // namespace mezzo
