// Ops that return extremes and their indices. Of equal elements the first wins; nan is greater than
// any number.
#pragma once

#include "../../core/op.h"

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
