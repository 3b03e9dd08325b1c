// From a dtype at run time to the type that arithmetic on it runs in, at compile time.
// Sees: dtype.h; parsed by nvcc too.
// Read next: cpu/block_io.h, ../cuda/kernels/lines.h (the users' surroundings).
#pragma once

#include <cstdint>
#include <type_traits>

#include "dtype.h"

namespace mezzo {

/** Calls f(std::type_identity<C>{}) with the type that arithmetic on `dtype` runs in: float, double or std::int64_t. */
template <class F> void visit_compute(DType dtype, F&& f) {
  switch (compute_dtype(dtype)) {
    case DType::f32: return f(std::type_identity<float>{});
    case DType::f64: return f(std::type_identity<double>{});
    default: return f(std::type_identity<std::int64_t>{});
  }
}

/** The same for floating dtypes. */
template <class F> void visit_floating_compute(DType dtype, F&& f) {
  if (dtype == DType::f64)
    f(std::type_identity<double>{});
  else
    f(std::type_identity<float>{});
}

}  // namespace mezzo
