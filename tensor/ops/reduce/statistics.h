// Reductions that need more than one accumulation: variance, norms, products, log-sum-exp.
#pragma once

#include "reduce.h"

namespace mezzo {

/** Returns log(sum(exp(x))) over `dims`, computed without overflow; integers and bools give f32.
 *  Empty: -inf.
 *  Precision: f32.
 *  Gradient: g * exp(x - y), where exp(x - y) is divided by its sum; 0 for a line of -inf. Unlike
 *  PyTorch, it does not depend on the rounding of y.
 *  Errors: IndexError.
 *  Source: Goodfellow, Bengio, Courville, Deep Learning, 4.1. */
MZ_API Tensor logsumexp(const Tensor& x, const Dims& dims, const KeepDimOptions& options = {});

/** Does the same as vector_norm. */
MZ_API Tensor norm(const Tensor& x, const Dims& dims = {}, const NormOptions& options = {});

/** Returns the product of all elements. Empty: 1.
 *  Precision: f32; integers and bool give i64.
 *  Gradient: g times the product of the other elements, exact with zeros.
 *  Errors: IndexError. */
MZ_API Tensor prod(const Tensor& x, const ReduceOptions& options = {});

/** Returns the product along `dim`. Otherwise as above. */
MZ_API Tensor prod(const Tensor& x, std::int64_t dim, const ReduceOptions& options = {});

/** Returns the standard deviation over all dimensions, or over `dims`: the square root of var.
 *  Precision: match; computed in f32. Unlike PyTorch, squares that overflow or underflow are
 * scaled. Gradient: that of var over 2 y before its rounding, 0 where y is 0. Errors: IndexError;
 * DtypeError for integers. */
MZ_API Tensor std(const Tensor& x, const Dims& dims = {}, const VarianceOptions& options = {});

/** Returns the variance over all dimensions, or over `dims`: the sum of squared deviations from the
 *  mean, divided by max(0, N - correction); 0 / 0 is nan.
 *  Precision: match; computed in f32 (f64 for f64).
 *  Gradient: 2 (x - mean) g / (N - correction).
 *  Errors: IndexError; DtypeError for integers. */
MZ_API Tensor var(const Tensor& x, const Dims& dims = {}, const VarianceOptions& options = {});

/** Returns (sum |x|^p)^(1/p) over all dimensions, or over `dims`; p = 0 counts nonzeros, p = +-inf
 *  is the largest and smallest |x|. Empty: 0 for finite p >= 0.
 *  Precision: f32. Unlike PyTorch, powers that overflow or underflow are scaled.
 *  Gradient: from the norm before its rounding; 0 where it is 0; for p = +-inf shared equally among
 *  ties.
 *  Errors: IndexError; DtypeError for integers; ShapeError for p < 0 or p = +-inf without
 *  elements. */
MZ_API Tensor vector_norm(const Tensor& x, const Dims& dims = {}, const NormOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** log(sum(exp(x))), shifted by the maximum if that is finite; integers and bools give f32. */
struct LogSumExp {
  static constexpr OpTraits traits{.name = "logsumexp",
                                   .precision = Precision::f32,
                                   .summary = "logarithm of the sum of exponentials",
                                   .needs = {input(0) | output(0)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct NormAttrs {
  double p = 2;
  std::uint32_t dims = 0;
  bool keepdim = false;
  ReduceAttrs reduce() const { return {dims, keepdim}; }
};

/** Alias of vector_norm. */
struct Norm {
  static constexpr OpTraits traits{.name = "norm",
                                   .precision = Precision::f32,
                                   .summary = "p-norm over dimensions, as vector_norm"};
  using Attrs = NormAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Product over the dimensions; integers give i64. */
struct Prod {
  static constexpr OpTraits traits{.name = "prod",
                                   .precision = Precision::f32,
                                   .summary = "product over one dimension or all",
                                   .needs = {input(0)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** For each element, the product of the other elements of its line along dim, without division. The
 *  result has the compute dtype. */
struct ProdOfOthers {
  static constexpr OpTraits traits{.name = "prod_of_others",
                                   .precision = Precision::match,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs {
    int dim = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

struct VarianceAttrs {
  std::uint32_t dims = 0;
  bool keepdim = false;
  double correction = 1;  // subtracted from the count in the divisor
  ReduceAttrs reduce() const { return {dims, keepdim}; }
};

/** Square root of the variance. */
struct Std {
  static constexpr OpTraits traits{.name = "std",
                                   .precision = Precision::match,
                                   .summary = "standard deviation over dimensions",
                                   .needs = {input(0) | output(0)}};
  using Attrs = VarianceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Sum of squared deviations from the mean, divided by max(0, count - correction). Floating
 *  only. */
struct Var {
  static constexpr OpTraits traits{.name = "var",
                                   .precision = Precision::match,
                                   .summary = "variance over dimensions",
                                   .needs = {input(0)}};
  using Attrs = VarianceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** (sum |x|^p)^(1/p). p = 0 counts nonzeros; p = +inf and -inf give the greatest and least |x|.
 *  Floating only. */
struct VectorNorm {
  static constexpr OpTraits traits{.name = "vector_norm",
                                   .precision = Precision::f32,
                                   .summary = "p-norm over dimensions",
                                   .needs = {input(0) | output(0)}};
  using Attrs = NormAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using StatisticsOps = type_list<LogSumExp, Norm, Prod, ProdOfOthers, Std, Var, VectorNorm>;

}  // namespace mezzo::op
