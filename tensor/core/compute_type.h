// Maps a run-time dtype to compile-time types: its storage type, and the type that arithmetic on it
// uses. Parsed by g++ and by nvcc.
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

/** Calls f(std::type_identity<T>{}) with the C++ storage type of the floating `dtype`. */
template <class F> void visit_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f16: return f(std::type_identity<Half>{});
    case DType::bf16: return f(std::type_identity<BFloat16>{});
    case DType::f32: return f(std::type_identity<float>{});
    default: return f(std::type_identity<double>{});
  }
}

/** The type that arithmetic on the floating storage type T runs in. */
template <class T> using ComputeOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace mezzo
