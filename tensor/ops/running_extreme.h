// Running extremes along a dimension, cummax and cummin, and the median.
#pragma once

#include "../core/op.h"

namespace mezzo::op {

struct RunningExtremeAttrs {
  std::int64_t dim = 0;
};

/** The greatest element so far along dim and its index. The last of equal elements wins; nan is
 *  greater than any number. */
struct Cummax {
  static constexpr OpTraits traits{
      .name = "cummax",
      .precision = Precision::match,
      .summary = "greatest element so far along a dimension, with its index",
      .outputs = 2,
      .needs = {output(1)},
      .integers = Integers::keep,
      .booleans = true};
  using Attrs = RunningExtremeAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The least element so far along dim and its index. The last of equal elements wins; nan wins over
 *  any number. */
struct Cummin {
  static constexpr OpTraits traits{
      .name = "cummin",
      .precision = Precision::match,
      .summary = "least element so far along a dimension, with its index",
      .outputs = 2,
      .needs = {output(1)},
      .integers = Integers::keep,
      .booleans = true};
  using Attrs = RunningExtremeAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The median along dim and its index: the lower of the two middle elements; nan if there is
 *  one. */
struct Median {
  static constexpr OpTraits traits{
      .name = "median",
      .precision = Precision::match,
      .summary = "middle of the sorted elements, the lower of two, with its index",
      .outputs = 2,
      .integers = Integers::keep,
      .booleans = true};
  struct Attrs {
    std::int64_t dim = 0;
    bool keepdim = false;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using RunningExtremeOps = type_list<Cummax, Cummin, Median>;

}  // namespace mezzo::op
