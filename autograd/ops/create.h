// Making tensors.
// Sees: tensor.
// Read next: pointwise.h.
#pragma once

#include <initializer_list>
#include <type_traits>
#include <vector>

#include "../../tensor/tensor.h"

namespace mezzo {

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
/** start, start + step, ... below end, 1-D; computed in f64 and rounded once, on a GPU by itself, so that captured steps may call it. Errors: ValueError unless step leads from start towards end. */
MZ_API Tensor arange(double start, double end, double step = 1, const TensorOptions& options = {});
/** 0, 1, ... below end. */
MZ_API Tensor arange(double end, const TensorOptions& options = {});
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
/** A 0-dim tensor. A template, so that one value in braces stays the 1-D tensor it looks like: tensor({2.5}) has shape [1]. */
template <class Number>
requires std::is_arithmetic_v<Number>
inline Tensor tensor(Number value, const TensorOptions& options = {}) {
  return tensor({static_cast<double>(value)}, Shape{}, options);
}

}  // namespace mezzo
