// Normalisation over groups of channels of one sample: group_norm and instance_norm, and their
// fused gradient.
#pragma once

#include "../../core/op.h"

namespace mezzo::op {

struct GroupNormAttrs {
  std::int64_t groups = 1;
  double eps = 1e-5;
};

/** (x - mean) * rstd * weight + bias. Statistics are over the channels of a group and all spatial
 *  positions; weight and bias are per channel. Operands: x, weight, bias. Results: y and, in f32
 *  (f64), mean, rstd and biased variance [N, groups]. */
struct GroupNorm {
  static constexpr OpTraits traits{
      .name = "group_norm",
      .precision = Precision::f32,
      .summary = "normalises groups of channels of each sample",
      .inputs = 3,
      .outputs = 4,
      .needs = {input(0) | input(1) | output(1) | output(2), input(0) | output(1) | output(2)}};
  using Attrs = GroupNormAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operands: g, x, weight, mean, rstd. Results: the gradients of x, weight and bias. */
struct GroupNormBackward {
  static constexpr OpTraits traits{.name = "group_norm_backward",
                                   .precision = Precision::match,
                                   .inputs = 5,
                                   .outputs = 3,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = GroupNormAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** group_norm with one channel per group. Its precision tag is `match`, as for batch_norm. */
struct InstanceNorm {
  static constexpr OpTraits traits{
      .name = "instance_norm",
      .precision = Precision::match,
      .summary = "normalises each channel of each sample",
      .inputs = 3,
      .outputs = 4,
      .needs = {input(0) | input(1) | output(1) | output(2), input(0) | output(1) | output(2)}};
  using Attrs = GroupNormAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using GroupNormOps = type_list<GroupNorm, GroupNormBackward, InstanceNorm>;

}  // namespace mezzo::op
