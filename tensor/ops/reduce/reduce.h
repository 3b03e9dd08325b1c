// Reductions to one value. ops.h explains the notation and the precision tags.
#pragma once

#include "../../core/op.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Chosen elements and their indices along a dimension. */
struct ValuesAndIndices {
  Tensor values;   // of the input's dtype
  Tensor indices;  // i64
};

/** Returns whether all elements are nonzero (nan is nonzero), as bool. Empty: true.
 *  Errors: IndexError. */
MZ_API Tensor all(const Tensor& x, const Dims& dims = {}, const KeepDimOptions& options = {});
/** Returns the largest element; nan counts as largest.
 *  Precision: match.
 *  Gradient: shared equally among ties.
 *  Errors: IndexError; ShapeError when a reduced dimension is empty. */
MZ_API Tensor amax(const Tensor& x, const Dims& dims = {}, const KeepDimOptions& options = {});
/** Returns the smallest element, or nan where there is one. Otherwise as amax. */
MZ_API Tensor amin(const Tensor& x, const Dims& dims = {}, const KeepDimOptions& options = {});
/** Returns whether some element is nonzero (nan is nonzero), as bool. Empty: false.
 *  Errors: IndexError. */
MZ_API Tensor any(const Tensor& x, const Dims& dims = {}, const KeepDimOptions& options = {});
/** Returns the number of nonzero elements, i64. Empty: 0.
 *  Errors: IndexError. */
MZ_API Tensor count_nonzero(const Tensor& x, const Dims& dims = {},
                            const KeepDimOptions& options = {});
/** Returns the mean over all dimensions, or over `dims`. Empty: nan.
 *  Precision: match; accumulates in f32 (f64 for f64), one rounding. Unlike PyTorch, the mean of
 *  finite numbers is finite.
 *  Gradient: g / N expanded.
 *  Errors: IndexError; DtypeError for integers unless options.dtype is floating-point. */
MZ_API Tensor mean(const Tensor& x, const Dims& dims = {}, const ReduceOptions& options = {});
/** Returns the sum over all dimensions, or over `dims`. Empty: 0.
 *  Precision: f32; accumulates in f32 (f64 for f64), integers and bool in i64 with an i64 result.
 *  Gradient: g expanded.
 *  Errors: IndexError for a bad or repeated dimension. */
MZ_API Tensor sum(const Tensor& x, const Dims& dims = {}, const ReduceOptions& options = {});

/** Sums x over the dimensions that an expand from `shape` to x's shape repeats: the adjoint of
 *  broadcasting. */
MZ_API Tensor sum_to(const Tensor& x, const Shape& shape);

}  // namespace mezzo

namespace mezzo::op {

/** The reduced dimensions (bit i of `dims`: dimension i), and whether they are kept with size 1. */
struct ReduceAttrs {
  std::uint32_t dims = 0;
  bool keepdim = false;
};

/** Returns the shape of the result. */
MZ_API Shape reduced_shape(const Shape& shape, const ReduceAttrs& attrs);
/** Returns the number of elements that are reduced to one. */
MZ_API std::int64_t reduced_count(const Shape& shape, const ReduceAttrs& attrs);

/** True if every element is nonzero; nan is nonzero. */
struct All {
  static constexpr OpTraits traits{.name = "all",
                                   .precision = Precision::match,
                                   .summary = "true if all elements are nonzero",
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Greatest element; nan if there is one. */
struct Amax {
  static constexpr OpTraits traits{.name = "amax",
                                   .precision = Precision::match,
                                   .summary = "greatest element; ties share the gradient",
                                   .needs = {input(0) | output(0)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Least element; nan if there is one. */
struct Amin {
  static constexpr OpTraits traits{.name = "amin",
                                   .precision = Precision::match,
                                   .summary = "least element; ties share the gradient",
                                   .needs = {input(0) | output(0)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** True if any element is nonzero; nan is nonzero. */
struct Any {
  static constexpr OpTraits traits{.name = "any",
                                   .precision = Precision::match,
                                   .summary = "true if any element is nonzero",
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Number of nonzero elements, as i64. */
struct CountNonzero {
  static constexpr OpTraits traits{.name = "count_nonzero",
                                   .precision = Precision::match,
                                   .summary = "number of nonzero elements",
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Sum divided by the number of elements. Floating only. Accumulates in f32 (f64) and rounds once,
 *  after the division. */
struct Mean {
  static constexpr OpTraits traits{
      .name = "mean", .precision = Precision::match, .summary = "mean over dimensions"};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Sum over the dimensions. Accumulates in f32 (f64 for f64) and rounds once; integers and bool
 *  give i64. */
struct Sum {
  static constexpr OpTraits traits{.name = "sum",
                                   .precision = Precision::f32,
                                   .summary = "sum over dimensions",
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using ReduceOps = type_list<All, Amax, Amin, Any, CountNonzero, Mean, Sum>;

}  // namespace mezzo::op
