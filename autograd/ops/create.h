// Making tensors.
// Sees: tensor.
// Read next: pointwise.h.
#pragma once

#include <initializer_list>
#include <type_traits>
#include <vector>

#include "../../tensor/tensor.h"

namespace mezzo {

/** An integer type whose values all fit i64. */
template <class T>
concept Integer = std::is_integral_v<T> &&(std::is_signed_v<T> || sizeof(T) < sizeof(std::int64_t));

struct TensorOptions {
  DType dtype = DType::f32;
  Device device = cpu;
  bool requires_grad = false;
  bool pin_memory = false;  // on the CPU: as Tensor::pin_memory
};

/** Uninitialised elements. Errors: ValueError for a negative size, SizeError, OutOfMemory. */
MZ_API Tensor empty(const Shape& shape, const TensorOptions& options = {});
MZ_API Tensor zeros(const Shape& shape, const TensorOptions& options = {});
MZ_API Tensor ones(const Shape& shape, const TensorOptions& options = {});
/** Every element `value`, rounded once to the dtype. */
MZ_API Tensor full(const Shape& shape, double value, const TensorOptions& options = {});
/** Shape, dtype and device of x. */
MZ_API Tensor zeros_like(const Tensor& x);
MZ_API Tensor ones_like(const Tensor& x);
MZ_API Tensor empty_like(const Tensor& x);

MZ_API Tensor full_like(const Tensor& x, double value);
/** start, start + step, ... below end, 1-D; computed in f64 and rounded once, on a GPU by itself, so that
 *  captured steps may call it. Errors: ValueError unless step leads from start towards end, SizeError for
 *  more elements than a tensor can have. */
MZ_API Tensor arange(double start, double end, double step = 1, const TensorOptions& options = {});
/** 0, 1, ... below end. */
MZ_API Tensor arange(double end, const TensorOptions& options = {});
namespace detail {
MZ_API Tensor arange_integers(std::int64_t start, std::int64_t end, std::int64_t step,
                              const TensorOptions& options);
MZ_API Tensor tensor_of_integers(const std::vector<std::int64_t>& values, const Shape& shape,
                                 const TensorOptions& options);
}  // namespace detail

/** The same from integers, computed in i64 and rounded once. */
template <Integer A, Integer B, Integer S = int>
Tensor arange(A start, B end, S step = 1, const TensorOptions& options = {}) {
  return detail::arange_integers(start, end, step, options);
}
template <Integer E> Tensor arange(E end, const TensorOptions& options = {}) {
  return detail::arange_integers(0, end, 1, options);
}
/** `steps` values from start to end, both included, equally spaced; computed as arange's. Errors: ValueError for steps < 0. */
MZ_API Tensor linspace(double start, double end, std::int64_t steps, const TensorOptions& options = {});
/** Ones on the diagonal of an n x n (or n x m) matrix, zeros elsewhere. */
MZ_API Tensor eye(std::int64_t n, const TensorOptions& options = {});
MZ_API Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options = {});

/** The given values as a 1-D tensor of options.dtype, each rounded once. */
MZ_API Tensor tensor(const std::vector<double>& values, const TensorOptions& options = {});
/** The given values in row-major order under `shape`. Errors: ShapeError when the counts differ. */
MZ_API Tensor tensor(const std::vector<double>& values, const Shape& shape,
                     const TensorOptions& options = {});
/** The same from integers, which keep all their digits in an i64 tensor. */
template <Integer T> Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return detail::tensor_of_integers({values.begin(), values.end()},
                                    {static_cast<std::int64_t>(values.size())}, options);
}
template <Integer T>
Tensor tensor(std::initializer_list<T> values, const Shape& shape, const TensorOptions& options = {}) {
  return detail::tensor_of_integers({values.begin(), values.end()}, shape, options);
}
/** A 0-dim tensor. A template, so that one value in braces stays the 1-D tensor it looks like: tensor({2.5}) has shape [1]. */
template <class Number>
requires std::is_arithmetic_v<Number>
inline Tensor tensor(Number value, const TensorOptions& options = {}) {
  if constexpr (Integer<Number>)
    return detail::tensor_of_integers({value}, Shape{}, options);
  else
    return tensor(std::vector<double>{static_cast<double>(value)}, Shape{}, options);
}

}  // namespace mezzo
