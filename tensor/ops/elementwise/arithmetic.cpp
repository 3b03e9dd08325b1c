#include "arithmetic.h"

#include "../../core/elementwise.h"
#include "../../core/elementwise_info.h"
#include "common_dtype.h"

namespace mezzo {

namespace {

/** Applies the op to operands rounded to the dtype that they promote to. */
template <class Op> Tensor apply_with_steps(const Tensor& a, const Tensor& b) {
  return apply<Op>(in_common_dtype(a, b), in_common_dtype(b, a));
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b, const AddOptions& options) {
  return apply_with<op::Add>({options.alpha}, a, b);
}
Tensor addcdiv(const Tensor& x, const Tensor& a, const Tensor& b, const AddcOptions& options) {
  return apply_with<op::Addcdiv>({options.value}, x, a, b);
}
Tensor addcmul(const Tensor& x, const Tensor& a, const Tensor& b, const AddcOptions& options) {
  return apply_with<op::Addcmul>({options.value}, x, a, b);
}
Tensor atan2(const Tensor& y, const Tensor& x) { return apply<op::Atan2>(y, x); }
Tensor logaddexp(const Tensor& a, const Tensor& b) { return apply<op::Logaddexp>(a, b); }
Tensor div(const Tensor& a, const Tensor& b, const DivOptions& options) {
  if (options.rounding == Rounding::floor) return floor_divide(a, b);
  if (options.rounding == Rounding::trunc) return apply_with_steps<op::TruncDivide>(a, b);
  return apply<op::Div>(a, b);
}
Tensor floor_divide(const Tensor& a, const Tensor& b) {
  return apply_with_steps<op::FloorDivide>(a, b);
}
Tensor fmod(const Tensor& a, const Tensor& b) { return apply_with_steps<op::Fmod>(a, b); }
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& w) { return apply<op::Lerp>(a, b, w); }
Tensor maximum(const Tensor& a, const Tensor& b) {
  return apply<op::Maximum>(rounded_once(a, b), rounded_once(b, a));
}
Tensor minimum(const Tensor& a, const Tensor& b) {
  return apply<op::Minimum>(rounded_once(a, b), rounded_once(b, a));
}
Tensor xlogy(const Tensor& x, const Tensor& y) { return apply<op::Xlogy>(x, y); }
Tensor mul(const Tensor& a, const Tensor& b) { return apply<op::Mul>(a, b); }
Tensor remainder(const Tensor& a, const Tensor& b) { return apply_with_steps<op::Remainder>(a, b); }
Tensor rsub(const Tensor& a, const Tensor& b, const AddOptions& options) {
  return apply_with<op::Rsub>({options.alpha}, a, b);
}
Tensor sub(const Tensor& a, const Tensor& b, const AddOptions& options) {
  return apply_with<op::Sub>({options.alpha}, a, b);
}

const Tensor& add_(const Tensor& self, const Tensor& other, const AddOptions& options) {
  return apply_in_place<op::Add>({options.alpha}, self, other);
}
const Tensor& addcdiv_(const Tensor& self, const Tensor& a, const Tensor& b,
                       const AddcOptions& options) {
  return apply_in_place<op::Addcdiv>({options.value}, self, a, b);
}
const Tensor& addcmul_(const Tensor& self, const Tensor& a, const Tensor& b,
                       const AddcOptions& options) {
  return apply_in_place<op::Addcmul>({options.value}, self, a, b);
}
const Tensor& atan2_(const Tensor& self, const Tensor& x) {
  return apply_in_place<op::Atan2>({}, self, x);
}
const Tensor& div_(const Tensor& self, const Tensor& other, const DivOptions& options) {
  if (options.rounding == Rounding::floor) return floor_divide_(self, other);
  if (options.rounding == Rounding::trunc)
    return apply_in_place<op::TruncDivide>({}, self, in_common_dtype(other, self));
  return apply_in_place<op::Div>({}, self, other);
}
const Tensor& floor_divide_(const Tensor& self, const Tensor& other) {
  return apply_in_place<op::FloorDivide>({}, self, in_common_dtype(other, self));
}
const Tensor& fmod_(const Tensor& self, const Tensor& other) {
  return apply_in_place<op::Fmod>({}, self, in_common_dtype(other, self));
}
const Tensor& lerp_(const Tensor& self, const Tensor& b, const Tensor& w) {
  return apply_in_place<op::Lerp>({}, self, b, w);
}
const Tensor& mul_(const Tensor& self, const Tensor& other) {
  return apply_in_place<op::Mul>({}, self, other);
}
const Tensor& remainder_(const Tensor& self, const Tensor& other) {
  return apply_in_place<op::Remainder>({}, self, in_common_dtype(other, self));
}
const Tensor& sub_(const Tensor& self, const Tensor& other, const AddOptions& options) {
  return apply_in_place<op::Sub>({options.alpha}, self, other);
}

}  // namespace mezzo
