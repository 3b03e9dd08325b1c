// Ops that reduce dimensions to one value each.
// Sees: op.h.
// Read next: ../cpu/reduce.cpp (kernels), ../../autograd/rules/reduce.cpp (rules).
#pragma once

#include "../op.h"

namespace mezzo::op {

/** Which dimensions are reduced (bit i of `dims`: dimension i), and whether they stay as size 1. */
struct ReduceAttrs {
  std::uint32_t dims = 0;
  bool keepdim = false;
};

/** The shape that is left of `shape`. */
MZ_API Shape reduced_shape(const Shape& shape, const ReduceAttrs& attrs);
/** Number of elements that make one result. */
MZ_API std::int64_t reduced_count(const Shape& shape, const ReduceAttrs& attrs);

/** True where every element is nonzero. nan is nonzero. */
struct All {
  static constexpr OpTraits traits{.name = "all",
                                   .precision = Precision::match,
                                   .summary = "true where all elements are nonzero",
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** Greatest element; nan wins. */
struct Amax {
  static constexpr OpTraits traits{.name = "amax",
                                   .precision = Precision::match,
                                   .summary = "greatest element, gradient shared among ties",
                                   .needs = {input(0) | output(0)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Least element; nan wins. */
struct Amin {
  static constexpr OpTraits traits{.name = "amin",
                                   .precision = Precision::match,
                                   .summary = "least element, gradient shared among ties",
                                   .needs = {input(0) | output(0)},
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** True where some element is nonzero. nan is nonzero. */
struct Any {
  static constexpr OpTraits traits{.name = "any",
                                   .precision = Precision::match,
                                   .summary = "true where some element is nonzero",
                                   .differentiable = false,
                                   .integers = Integers::keep,
                                   .booleans = true};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** How many elements are nonzero, as i64. */
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

/** Sum divided by the number of elements. Floating only; f32 accumulation, one rounding after the division. */
struct Mean {
  static constexpr OpTraits traits{
      .name = "mean", .precision = Precision::match, .summary = "mean over dimensions"};
  using Attrs = ReduceAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Sum over the dimensions. f32 accumulation (f64 for f64), one rounding; integers and bool give i64. */
struct Sum {
  static constexpr OpTraits traits{.name = "sum",
                                   .precision = Precision::full,
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
