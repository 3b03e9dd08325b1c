#include "power.h"

#include "../../tensor/core/elementwise.h"
#include "../../tensor/core/elementwise_info.h"

namespace mezzo {

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
Tensor reciprocal(const Tensor& x) { return apply<op::Reciprocal>(x); }
Tensor rsqrt(const Tensor& x) { return apply<op::Rsqrt>(x); }
Tensor sqrt(const Tensor& x) { return apply<op::Sqrt>(x); }
Tensor square(const Tensor& x) { return apply<op::Square>(x); }

const Tensor& pow_(const Tensor& self, const Tensor& exponent) {
  return apply_in_place<op::Pow>(pow_attrs(exponent), self, exponent);
}
const Tensor& reciprocal_(const Tensor& self) { return apply_in_place<op::Reciprocal>({}, self); }
const Tensor& rsqrt_(const Tensor& self) { return apply_in_place<op::Rsqrt>({}, self); }
const Tensor& sqrt_(const Tensor& self) { return apply_in_place<op::Sqrt>({}, self); }
const Tensor& square_(const Tensor& self) { return apply_in_place<op::Square>({}, self); }

}  // namespace mezzo
