// Cumulative extremes along a dimension, and the median. ops.h explains the notation and the
// precision tags.
#pragma once

#include "../../core/op.h"
#include "../reduce/reduce.h"

namespace mezzo {

/** Returns the largest element up to each position along `dim`, and its index, that of the last
 *  among equals. From the first nan on, the result is nan.
 *  Shape: x's.
 *  Precision: match, exact.
 *  Gradient: g added to the chosen elements in f32 (f64), rounded once.
 *  Errors: IndexError. */
MZ_API ValuesAndIndices cummax(const Tensor& x, std::int64_t dim);
/** Returns the smallest element up to each position along `dim`, and its index. Otherwise as
 *  cummax. */
MZ_API ValuesAndIndices cummin(const Tensor& x, std::int64_t dim);

/** Returns the median of all elements, the lower of two middle ones; nan if there is one.
 *  Precision: match, exact.
 *  Gradient: g goes to the chosen element only.
 *  Errors: ShapeError when there is no element. */
MZ_API Tensor median(const Tensor& x);
/** Returns the medians along `dim` and their indices (i64). Which of several equal elements is
 *  chosen is deterministic but not specified.
 *  Errors: IndexError; ShapeError when there is no element. */
MZ_API ValuesAndIndices median(const Tensor& x, std::int64_t dim,
                               const KeepDimOptions& options = {});

}  // namespace mezzo

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
