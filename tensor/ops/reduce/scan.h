// Running sums and products along one dimension.
#pragma once

#include "../../core/op.h"

namespace mezzo {

/** Returns the cumulative product along `dim`. The in-place form keeps self's dtype.
 *  Shape: x's.
 *  Precision: f32; integers give i64.
 *  Gradient: exact with zeros, no division.
 *  Errors: IndexError. */
MZ_API Tensor cumprod(const Tensor& x, std::int64_t dim, const ScanOptions& options = {});

/** Overwrites self with cumprod(self, dim) and returns it. */
MZ_API const Tensor& cumprod_(const Tensor& self, std::int64_t dim);

/** Returns the cumulative sum along `dim`. The in-place form keeps self's dtype.
 *  Shape: x's.
 *  Precision: f32; integers and bool give i64.
 *  Gradient: the cumulative sum of g from the end.
 *  Errors: IndexError. */
MZ_API Tensor cumsum(const Tensor& x, std::int64_t dim, const ScanOptions& options = {});

/** Overwrites self with cumsum(self, dim) and returns it. */
MZ_API const Tensor& cumsum_(const Tensor& self, std::int64_t dim);

}  // namespace mezzo

namespace mezzo::op {

/** y[k] = product of x[0..k] along dim; integers give i64. */
struct Cumprod {
  static constexpr OpTraits traits{.name = "cumprod",
                                   .precision = Precision::f32,
                                   .summary = "running product along a dimension",
                                   .needs = {input(0)},
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    int dim = 0;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of cumprod. Operands: g, x. Result k: the product of x before k, times g[k] + x[k+1]
 *  (g[k+1] + x[k+2] (...)). There is no division, so zeros need no special case. */
struct CumprodBackward {
  static constexpr OpTraits traits{.name = "cumprod_backward",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = Cumprod::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** y[k] = sum of x[0..k] along dim, or of x[k..] when reversed; integers give i64. */
struct Cumsum {
  static constexpr OpTraits traits{.name = "cumsum",
                                   .precision = Precision::f32,
                                   .summary = "running sum along a dimension",
                                   .in_place = true,
                                   .integers = Integers::keep,
                                   .booleans = true};
  struct Attrs {
    int dim = 0;
    bool reversed = false;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using ScanOps = type_list<Cumprod, CumprodBackward, Cumsum>;

}  // namespace mezzo::op
