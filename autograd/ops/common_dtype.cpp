#include "common_dtype.h"

#include "../../tensor/core/dispatch.h"

namespace mezzo {

Tensor in_common_dtype(const Tensor& x, const Tensor& other) {
  const Tensor both[] = {x, other};
  const DType common = promoted_dtype(both);
  return x.defined() && is_low(common) ? x.to(common) : x;
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
