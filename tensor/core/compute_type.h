// Maps a run-time dtype to the compile-time type that arithmetic on it uses. Parsed by g++ and by
// nvcc.
#pragma once

#include <cstdint>
#include <type_traits>

#include "dtype.h"

namespace mezzo {

/** Calls f(std::type_identity<C>{}) with the type that arithmetic on `dtype` runs in: float,
 *  double or std::int64_t. */
template <class F> void visit_compute(DType dtype, F&& f) {
  switch (compute_dtype(dtype)) {
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f64: return f(std::type_identity<double>{});
    default: return f(std::type_identity<std::int64_t>{});
  }
}

/** Calls f(std::type_identity<C>{}) with the type that arithmetic on the floating `dtype` runs in:
 *  float or double. */
template <class F> void visit_floating_compute(DType dtype, F&& f) {
  if (dtype == DType::f64)
    f(std::type_identity<double>{});
  else
    f(std::type_identity<float>{});
}

}  // namespace mezzo
