#include "common_dtype.h"

#include "../../tensor/core/dispatch.h"

namespace mezzo {

Tensor in_common_dtype(const Tensor& x, const Tensor& other) {
  const Tensor both[] = {x, other};
  const DType common = promoted_dtype(both);
  return x.defined() && is_low(common) ? x.to(common) : x;
}

double in_dtype_of(const Tensor& x, double number) {
  if (!x.defined() || !is_low(x.dtype())) return number;
  return x.dtype() == DType::f16 ? static_cast<float>(Half(number))
                                 : static_cast<float>(BFloat16(number));
}

}  // namespace mezzo
