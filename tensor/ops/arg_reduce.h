// Ops that find where an extreme is, and it with its place. All of them take the first among equals, and nan above everything.
// Sees: op.h.
// Read next: ../cpu/arg_reduce.cpp (kernels), ../../autograd/rules/arg_reduce.cpp (rules).
#pragma once

#include "../op.h"

namespace mezzo::op {

/** One dimension, or all of them taken as one. */
struct ArgReduceAttrs {
  int dim = 0;
  bool all = false;
  bool keepdim = false;
};

/** Place of the greatest element, as i64; among all elements the place in row-major order. */
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

/** Place of the least element, as i64. */
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

/** Greatest element along a dimension, and its index: results [values, indices]. */
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

/** Least element along a dimension, and its index: results [values, indices]. */
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
