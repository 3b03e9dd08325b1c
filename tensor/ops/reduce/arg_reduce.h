// Ops that return extremes and their indices. Of equal elements the first wins; nan is greater than
// any number.
#pragma once

#include "../../core/op.h"
#include "../../core/reduce_options.h"
#include "reduce.h"

namespace mezzo {

/** Returns the index (i64) of the largest element, the first among equals; nan counts as largest.
 *  Errors: IndexError; ShapeError when there is no element. */
MZ_API Tensor argmax(const Tensor& x, const ArgReduceOptions& options = {});

/** Returns the index (i64) of the smallest element, or of the first nan. Otherwise as argmax. */
MZ_API Tensor argmin(const Tensor& x, const ArgReduceOptions& options = {});

/** Returns the largest of all elements: amax over all dimensions. */
MZ_API Tensor max(const Tensor& x);

/** Returns the largest elements along `dim` and their indices. Of equal elements the first is
 *  chosen; nan counts as largest.
 *  Precision: match.
 *  Gradient: g goes to the chosen element only.
 *  Errors: IndexError; ShapeError when the dimension is empty. */
MZ_API ValuesAndIndices max(const Tensor& x, std::int64_t dim, const KeepDimOptions& options = {});

/** Returns the smallest of all elements: amin over all dimensions. */
MZ_API Tensor min(const Tensor& x);

/** Returns the smallest elements along `dim` and their indices, or nan where there is one.
 *  Otherwise as max. */
MZ_API ValuesAndIndices min(const Tensor& x, std::int64_t dim, const KeepDimOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** The reduced dimension, or (`all`) every dimension flattened into one. */
struct ArgReduceAttrs {
  int dim = 0;
  bool all = false;
  bool keepdim = false;
};

/** Index of the greatest element, as i64; with `all`, its row-major index in the whole tensor. */
struct Argmax {
  static constexpr OpTraits traits{.name = "argmax",
                                   .precision = Precision::match,
                                   .summary = "index of the first greatest element",
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ArgReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Index of the least element, as i64; with `all`, its row-major index in the whole tensor. */
struct Argmin {
  static constexpr OpTraits traits{.name = "argmin",
                                   .precision = Precision::match,
                                   .summary = "index of the first least element",
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ArgReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Greatest element along a dimension and its index. Results: [values, indices]. */
struct Max {
  static constexpr OpTraits traits{.name = "max",
                                   .precision = Precision::match,
                                   .summary = "greatest element along a dimension, with its index",
                                   .outputs = 2,
                                   .needs = {output(1)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ArgReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Least element along a dimension and its index. Results: [values, indices]. */
struct Min {
  static constexpr OpTraits traits{.name = "min",
                                   .precision = Precision::match,
                                   .summary = "least element along a dimension, with its index",
                                   .outputs = 2,
                                   .needs = {output(1)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ArgReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using ArgReduceOps = type_list<Argmax, Argmin, Max, Min>;

}  // namespace mezzo::op
