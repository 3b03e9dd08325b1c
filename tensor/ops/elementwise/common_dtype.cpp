#include "common_dtype.h"

#include "../../core/convert_value.h"
#include "../../core/dispatch.h"

namespace mezzo {

Tensor in_common_dtype(const Tensor& x, const Tensor& other) {
  const Tensor both[] = {x, other};
  const DType common = promoted_dtype(both);
  return x.defined() && is_low(common) ? x.to(common) : x;
}

Tensor rounded_once(const Tensor& x, const Tensor& other) {
  if (!x.defined() || !other.defined() || x.dim() != 0) return x;
  if (x.dtype() == DType::f32 || is_low(x.dtype())) return x;  // rounded once by the op
  const Tensor both[] = {x, other};
  const DType common = promoted_dtype(both);
  if (!is_low(common)) return x;
  if (!x.impl()->is_scalar) return x.to(common);
  return visit_dtype(common, [&]<class T>(std::type_identity<T>) {
    return scalar_operand(static_cast<double>(x.dtype() == DType::f64
                                                  ? converted<T>(*x.data<double>())
                                                  : converted<T>(*x.data<std::int64_t>())));
  });
}

double in_dtype_of(const Tensor& x, double number) {
  if (!x.defined()) return number;
  return visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (is_low(dtype_of<T>()))
      return static_cast<double>(T(number));
    else
      return number;
  });
}

}  // namespace mezzo
