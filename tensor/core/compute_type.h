// Maps a run-time dtype to compile-time types: its storage type, and the type that arithmetic on it
// uses. Parsed by g++ and by nvcc.
#pragma once

#include <cstdint>
#include <type_traits>

#include "dtype.h"

namespace mezzo {

/** Calls f(std::type_identity<C>{}) with the type that arithmetic on the floating `dtype` runs in:
 *  float or double. */
template <class F> void visit_floating_compute(DType dtype, F&& f) {
  if (dtype == DType::f64)
    f(std::type_identity<double>{});
  else
    f(std::type_identity<float>{});
}

/** Calls f(std::type_identity<C>{}) with the type that arithmetic on `dtype` runs in: float,
 *  double or std::int64_t. */
template <class F> void visit_compute(DType dtype, F&& f) {
  const DType compute = compute_dtype(dtype);
  if (!is_floating(compute))
    f(std::type_identity<std::int64_t>{});
  else
    visit_floating_compute(compute, f);
}

/** Calls f(std::type_identity<T>{}) with the C++ storage type of the floating `dtype`. */
template <class F> void visit_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f16: return f(std::type_identity<Half>{});
    case DType::bf16: return f(std::type_identity<BFloat16>{});
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f64: return f(std::type_identity<double>{});
    case DType::boolean:
    case DType::u8:
    case DType::i32:
    case DType::i64: break;  // not floating
  }
}

/** The type that arithmetic on the floating storage type T runs in. */
template <class T> using ComputeOf = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace mezzo
