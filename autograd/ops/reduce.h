// Reductions.
// Sees: tensor.
// Read next: ../../tensor/ops/reduce.h, ../../tensor/ops/arg_reduce.h.
#pragma once

#include <concepts>
#include <initializer_list>
#include <optional>
#include <vector>

#include "../../tensor/tensor.h"

namespace mezzo {

/** The dimensions a reduction runs over: one, several, or, when empty, all. Negative ones count from the end. */
class Dims {
 public:
  Dims() = default;
  template <std::integral I> Dims(I dim) { items_.push_back(static_cast<std::int64_t>(dim)); }  // NOLINT
  Dims(std::initializer_list<std::int64_t> dims) : items_(dims) {}
  Dims(const std::vector<std::int64_t>& dims) : items_(dims) {}      // NOLINT
  operator std::span<const std::int64_t>() const { return items_; }  // NOLINT

 private:
  Shape items_;
};

/** How a reduction treats shape and dtype. */
struct ReduceOptions {
  bool keepdim = false;             // reduced dimensions stay, with size 1
  std::optional<DType> dtype = {};  // the input is converted to it first
};

struct KeepDimOptions {
  bool keepdim = false;
};

struct NormOptions {
  double p = 2;  // any number, infinities included
  bool keepdim = false;
  std::optional<DType> dtype = {};  // the input is converted to it first
};

struct VarianceOptions {
  double correction = 1;  // taken from the count in the divisor: 1 is the unbiased estimate
  bool keepdim = false;
};

struct ScanOptions {
  std::optional<DType> dtype = {};  // the input is converted to it first
};

struct ArgReduceOptions {
  std::optional<std::int64_t> dim = {};  // left out: the whole tensor, indexed in row-major order
  bool keepdim = false;
};

/** An extreme along a dimension, and where it is. */
struct ValuesAndIndices {
  Tensor values;
  Tensor indices;  // i64
};

/** True where all elements are nonzero (nan is nonzero); bool. Empty: true. Errors: IndexError. */
MZ_API Tensor all(const Tensor& x, const Dims& dims = {}, const KeepDimOptions& options = {});
/** Greatest element; nan wins. Precision: follows the input. Gradient: shared equally among ties.
 *  Errors: IndexError; ShapeError when a reduced dimension is empty. */
MZ_API Tensor amax(const Tensor& x, const Dims& dims = {}, const KeepDimOptions& options = {});
/** Least element; as amax. */
MZ_API Tensor amin(const Tensor& x, const Dims& dims = {}, const KeepDimOptions& options = {});
/** True where some element is nonzero (nan is nonzero); bool. Empty: false. Errors: IndexError. */
MZ_API Tensor any(const Tensor& x, const Dims& dims = {}, const KeepDimOptions& options = {});
/** Index (i64) of the greatest element, the first among equals; nan wins. Errors: IndexError; ShapeError when nothing is there. */
MZ_API Tensor argmax(const Tensor& x, const ArgReduceOptions& options = {});
/** Index (i64) of the least element; as argmax. */
MZ_API Tensor argmin(const Tensor& x, const ArgReduceOptions& options = {});
/** Number of nonzero elements, i64. Empty: 0. Errors: IndexError. */
MZ_API Tensor count_nonzero(const Tensor& x, const Dims& dims = {}, const KeepDimOptions& options = {});
/** Running product along `dim`. Shape: kept. Precision: full; integers give i64. Gradient: exact with zeros, no division.
 *  Errors: IndexError. The in-place form keeps self's dtype. */
MZ_API Tensor cumprod(const Tensor& x, std::int64_t dim, const ScanOptions& options = {});
MZ_API const Tensor& cumprod_(const Tensor& self, std::int64_t dim);
/** Running sum along `dim`. Shape: kept. Precision: full; integers and bool give i64. Gradient: the running sum from the end.
 *  Errors: IndexError. The in-place form keeps self's dtype. */
MZ_API Tensor cumsum(const Tensor& x, std::int64_t dim, const ScanOptions& options = {});
MZ_API const Tensor& cumsum_(const Tensor& self, std::int64_t dim);
/** log(sum(exp(x))) over `dims`, without overflow; integers and bools give f32.
 *  Precision: full. Gradient: g * exp(x - y). Empty: -inf. Errors: IndexError. Source: Goodfellow, Bengio, Courville, Deep Learning, 4.1. */
MZ_API Tensor logsumexp(const Tensor& x, const Dims& dims, const KeepDimOptions& options = {});
/** The greatest of all elements: amax over all dimensions. */
MZ_API Tensor max(const Tensor& x);
/** The greatest elements along `dim` and their indices; the first among equals, nan wins. Precision: follows the input.
 *  Gradient: to the chosen element alone. Errors: IndexError; ShapeError when the dimension is empty. */
MZ_API ValuesAndIndices max(const Tensor& x, std::int64_t dim, const KeepDimOptions& options = {});
/** Mean over all dimensions, or over `dims`. Precision: follows the input; accumulates in f32 (f64 for f64), one rounding.
 *  Gradient: g / N expanded. Empty: nan. Errors: IndexError; DtypeError for integers unless options.dtype is floating. */
MZ_API Tensor mean(const Tensor& x, const Dims& dims = {}, const ReduceOptions& options = {});
/** The least of all elements: amin over all dimensions. */
MZ_API Tensor min(const Tensor& x);
/** The least elements along `dim` and their indices; as max. */
MZ_API ValuesAndIndices min(const Tensor& x, std::int64_t dim, const KeepDimOptions& options = {});
/** vector_norm under its older name. */
MZ_API Tensor norm(const Tensor& x, const Dims& dims = {}, const NormOptions& options = {});
/** Product of all elements, or along `dim`. Precision: full; integers and bool give i64. Gradient: g times the product of the others, exact
 *  with zeros. Empty: 1. Errors: IndexError. */
MZ_API Tensor prod(const Tensor& x, const ReduceOptions& options = {});
MZ_API Tensor prod(const Tensor& x, std::int64_t dim, const ReduceOptions& options = {});
/** Standard deviation over all dimensions, or over `dims`: the square root of var. Precision: follows the input; f32 inside.
 *  Gradient: that of var over 2 y, 0 where y is 0. Errors: IndexError; DtypeError for integers. */
MZ_API Tensor std(const Tensor& x, const Dims& dims = {}, const VarianceOptions& options = {});
/** Sum over all dimensions, or over `dims`.
 *  Precision: full; accumulates in f32 (f64 for f64), integers and bool in i64 with an i64 result.
 *  Gradient: expands. Empty sums are 0. Errors: IndexError for a bad or repeated dimension. */
MZ_API Tensor sum(const Tensor& x, const Dims& dims = {}, const ReduceOptions& options = {});

/** Variance over all dimensions, or over `dims`: squared deviations from the mean, summed, over max(0, N - correction); 0 / 0 is nan.
 *  Precision: follows the input; f32 inside (f64 for f64). Gradient: 2 (x - mean) g / (N - correction). Errors: IndexError; DtypeError for
 *  integers. */
MZ_API Tensor var(const Tensor& x, const Dims& dims = {}, const VarianceOptions& options = {});
/** (sum |x|^p)^(1/p) over all dimensions, or over `dims`; p = 0 counts nonzeros, p = +-inf is the greatest and least |x|.
 *  Precision: full. Gradient: 0 where the norm is 0; for p = +-inf shared equally among ties. Empty: 0 for finite p >= 0.
 *  Errors: IndexError; DtypeError for integers; ShapeError for p < 0 or p = +-inf of no elements. */
MZ_API Tensor vector_norm(const Tensor& x, const Dims& dims = {}, const NormOptions& options = {});

/** Sums x over whatever dimensions an expand from `shape` would have repeated: the adjoint of broadcasting. */
MZ_API Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace mezzo
