// Creating tensors.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <type_traits>
#include <vector>

#include "../core/tensor.h"

namespace mezzo {

/** An integer type, bool included. */
template <class T>
concept Integer = std::is_integral_v<T>;

/** The dtype, device and kind of memory of a new tensor, and whether it records gradients. */
struct TensorOptions {
  /** Of the elements. Not given: f32; i64 for the functions of integers, bool for those of bools.
   */
  std::optional<DType> dtype = {};
  Device device = cpu;         // where the tensor is allocated
  bool requires_grad = false;  // make it a leaf that records gradients
  bool pin_memory = false;     // on the CPU: page-locked memory, as Tensor::pin_memory

  /** Returns the dtype, or `otherwise` if none is given. */
  constexpr DType dtype_or(DType otherwise) const { return dtype ? *dtype : otherwise; }
};

/** Returns a tensor with uninitialised elements.
 *  Errors: ValueError for a negative size, SizeError, OutOfMemory. */
MZ_API Tensor empty(const Shape& shape, const TensorOptions& options = {});
/** Returns a tensor of zeros. */
MZ_API Tensor zeros(const Shape& shape, const TensorOptions& options = {});
/** Returns a tensor of ones. */
MZ_API Tensor ones(const Shape& shape, const TensorOptions& options = {});
/** Returns a tensor with every element `value`, rounded once to the dtype. */
MZ_API Tensor full(const Shape& shape, double value, const TensorOptions& options = {});
// The same with a dtype instead of options: zeros({2, 3}, f16). They are templates so that {} stays
// TensorOptions.
/** Returns uninitialised elements of a dtype. */
template <std::same_as<DType> D> Tensor empty(const Shape& shape, D dtype, Device device = cpu) {
  return empty(shape, TensorOptions{.dtype = dtype, .device = device});
}
/** Returns zeros of a dtype. */
template <std::same_as<DType> D> Tensor zeros(const Shape& shape, D dtype, Device device = cpu) {
  return zeros(shape, TensorOptions{.dtype = dtype, .device = device});
}
/** Returns ones of a dtype. */
template <std::same_as<DType> D> Tensor ones(const Shape& shape, D dtype, Device device = cpu) {
  return ones(shape, TensorOptions{.dtype = dtype, .device = device});
}
/** Returns elements `value` of a dtype. */
template <std::same_as<DType> D>
Tensor full(const Shape& shape, double value, D dtype, Device device = cpu) {
  return full(shape, value, TensorOptions{.dtype = dtype, .device = device});
}

/** Returns zeros with the shape, dtype and device of x. */
MZ_API Tensor zeros_like(const Tensor& x);
/** Returns ones with the shape, dtype and device of x. */
MZ_API Tensor ones_like(const Tensor& x);
/** Returns uninitialised elements with the shape, dtype and device of x. */
MZ_API Tensor empty_like(const Tensor& x);

/** Returns elements `value` with the shape, dtype and device of x. */
MZ_API Tensor full_like(const Tensor& x, double value);
/** Returns start, start + step, ... below end as a 1-D tensor, computed in f64 and rounded once. On
 *  a GPU the device computes the values, so that a captured step may create them.
 *  Errors: ValueError unless step leads from start towards end; SizeError for more elements than a
 *  tensor can have. */
MZ_API Tensor arange(double start, double end, double step = 1, const TensorOptions& options = {});
/** Returns start, start + 1, ... below end. */
MZ_API Tensor arange(double start, double end, const TensorOptions& options);
/** Returns 0, 1, ... below end. */
MZ_API Tensor arange(double end, const TensorOptions& options = {});
namespace detail {
MZ_API Tensor arange_integers(std::int64_t start, std::int64_t end, std::int64_t step,
                              const TensorOptions& options);
/** As below; the dtype that is not given is bool if `bools`, else i64. */
MZ_API Tensor tensor_of_integers(const std::vector<std::int64_t>& values, const Shape& shape,
                                 const TensorOptions& options, bool bools);
/** Throws ShapeError if two parts of nested braces differ in length. */
MZ_API void require_equal_lengths(std::size_t got, std::size_t expected);
/** Throws ValueError: i64 does not hold the number. */
[[noreturn]] MZ_API void refuse_integer(std::uint64_t value);

/** Returns an integer as i64. Errors: ValueError for 2^63 or more. */
template <Integer T> std::int64_t to_i64(T value) {
  if constexpr (std::is_unsigned_v<T> && sizeof(T) == sizeof(std::int64_t))
    if (value >> 63 != 0) refuse_integer(value);
  return static_cast<std::int64_t>(value);
}
template <class List>
Tensor integers(const List& values, const Shape& shape, const TensorOptions& options) {
  using T = std::remove_cvref_t<decltype(*values.begin())>;
  std::vector<std::int64_t> wide;
  wide.reserve(values.size());
  for (const T value : values) wide.push_back(to_i64(value));
  return tensor_of_integers(wide, shape, options, std::is_same_v<T, bool>);
}
}  // namespace detail

/** Does the same for integers, computed in i64; i64 unless another dtype is given. */
template <Integer A, Integer B, Integer S>
Tensor arange(A start, B end, S step, const TensorOptions& options = {}) {
  return detail::arange_integers(detail::to_i64(start), detail::to_i64(end), detail::to_i64(step),
                                 options);
}
/** Returns start, start + 1, ... below an integer end. */
template <Integer A, Integer B> Tensor arange(A start, B end, const TensorOptions& options = {}) {
  return detail::arange_integers(detail::to_i64(start), detail::to_i64(end), 1, options);
}
/** Returns 0, 1, ... below an integer end. */
template <Integer E> Tensor arange(E end, const TensorOptions& options = {}) {
  return detail::arange_integers(0, detail::to_i64(end), 1, options);
}
/** Returns `steps` equally spaced values from start to end, both included; computed as in arange.
 *  Errors: ValueError for steps < 0. */
MZ_API Tensor linspace(double start, double end, std::int64_t steps,
                       const TensorOptions& options = {});
/** Returns an n x n matrix with ones on the diagonal and zeros elsewhere. */
MZ_API Tensor eye(std::int64_t n, const TensorOptions& options = {});
/** Returns an n x m matrix with ones on the diagonal and zeros elsewhere. */
MZ_API Tensor eye(std::int64_t n, std::int64_t m, const TensorOptions& options = {});

/** Returns the values as a 1-D tensor of options.dtype (f32), each rounded once. */
MZ_API Tensor tensor(const std::vector<double>& values, const TensorOptions& options = {});
/** Returns the values in row-major order as a tensor of `shape`.
 *  Errors: ShapeError when the number of values does not fit the shape. */
MZ_API Tensor tensor(const std::vector<double>& values, const Shape& shape,
                     const TensorOptions& options = {});
/** Does the same for integers, of which all digits are kept. Unless a dtype is given, the tensor is
 *  i64, or bool for bools: tensor({1, 2}) is i64, tensor({1., 2}) is f32.
 *  Errors: ValueError for 2^63 or more. */
template <Integer T>
Tensor tensor(std::initializer_list<T> values, const TensorOptions& options = {}) {
  return detail::integers(values, {static_cast<std::int64_t>(values.size())}, options);
}
/** Returns integers in row-major order as a tensor of `shape`.
 *  Errors: ShapeError when the number of values does not fit the shape. */
template <Integer T>
Tensor tensor(std::initializer_list<T> values, const Shape& shape,
              const TensorOptions& options = {}) {
  return detail::integers(values, shape, options);
}
/** Does the same for a vector of floats or integers. */
template <class T>
requires std::is_arithmetic_v<T>
Tensor tensor(const std::vector<T>& values, const Shape& shape, const TensorOptions& options = {}) {
  if constexpr (Integer<T>)
    return detail::integers(values, shape, options);
  else
    return tensor(std::vector<double>(values.begin(), values.end()), shape, options);
}
/** Does the same as a 1-D tensor. */
template <class T>
requires std::is_arithmetic_v<T>
Tensor tensor(const std::vector<T>& values, const TensorOptions& options = {}) {
  return tensor(values, Shape{static_cast<std::int64_t>(values.size())}, options);
}
/** Returns a matrix from its rows: tensor({{1, 2}, {3, 4}}).
 *  Errors: ShapeError for rows of different lengths. */
template <class T>
requires std::is_arithmetic_v<T>
Tensor tensor(std::initializer_list<std::initializer_list<T>> rows,
              const TensorOptions& options = {}) {
  std::vector<T> values;
  for (const auto& row : rows) {
    detail::require_equal_lengths(row.size(), rows.begin()->size());
    values.insert(values.end(), row.begin(), row.end());
  }
  const auto columns = rows.size() == 0 ? 0 : static_cast<std::int64_t>(rows.begin()->size());
  return tensor(values, Shape{static_cast<std::int64_t>(rows.size()), columns}, options);
}
/** Returns a tensor of three dimensions from its matrices.
 *  Errors: ShapeError for parts of different sizes. */
template <class T>
requires std::is_arithmetic_v<T>
Tensor tensor(std::initializer_list<std::initializer_list<std::initializer_list<T>>> matrices,
              const TensorOptions& options = {}) {
  std::vector<T> values;
  Shape shape{static_cast<std::int64_t>(matrices.size()), 0, 0};
  for (const auto& rows : matrices) {
    detail::require_equal_lengths(rows.size(), matrices.begin()->size());
    shape[1] = static_cast<std::int64_t>(rows.size());
    for (const auto& row : rows) {
      detail::require_equal_lengths(row.size(), matrices.begin()->begin()->size());
      shape[2] = static_cast<std::int64_t>(row.size());
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  return tensor(values, shape, options);
}
/** Returns a 0-dim tensor. It is a template so that tensor({2.5}), a list of one value, still gives
 *  the 1-D tensor of shape [1]. */
template <class Number>
requires std::is_arithmetic_v<Number>
inline Tensor tensor(Number value, const TensorOptions& options = {}) {
  if constexpr (Integer<Number>)
    return detail::integers(std::initializer_list<Number>{value}, Shape{}, options);
  else
    return tensor(std::vector<double>{static_cast<double>(value)}, Shape{}, options);
}

}  // namespace mezzo
