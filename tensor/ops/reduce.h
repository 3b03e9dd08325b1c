// Ops that reduce dimensions to one value each.
#pragma once

#include "../core/op.h"

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
