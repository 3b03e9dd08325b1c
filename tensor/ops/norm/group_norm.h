// Normalisation over groups of channels of one sample: group_norm and instance_norm, and their
// fused gradient.
#pragma once

#include "../../core/op.h"

namespace mezzo {

/** Options of group_norm. */
struct GroupNormOptions {
  Tensor weight = {},  // [C]: factor of each channel; undefined: 1
      bias = {};       // [C]: added to each channel; undefined: 0
  double eps = 1e-5;   // added to the variance
};

/** Normalises each of `groups` groups of adjacent channels of each sample over its channels and
 *  space, then scales and shifts per channel.
 *  Shape: x [N,C] or [N,C,...], kept.
 *  Precision: f32; with casts off it computes in f32 and returns x's dtype.
 *  Gradient: as layer_norm, per group.
 *  Errors: ShapeError (also where `groups` does not divide the channels), DtypeError, ValueError.
 *  Source: Wu, He, Group Normalization (2018). */
MZ_API Tensor group_norm(const Tensor& x, std::int64_t groups,
                         const GroupNormOptions& options = {});

/** Options of instance_norm. */
struct InstanceNormOptions {
  Tensor running_mean = {},     // [C]: running mean; updated with use_input_stats, else required
      running_var = {};         // [C]: running unbiased variance; likewise
  Tensor weight = {},           // [C]: factor of each channel; undefined: 1
      bias = {};                // [C]: added to each channel; undefined: 0
  bool use_input_stats = true;  // normalise with the statistics of x
  double momentum = 0.1;        // weight of x in the new running statistics
  double eps = 1e-5;            // added to the variance
};

/** Normalises each channel of each sample over space, as batch_norm does for the whole batch.
 *  Shape: x [N,C,...] with more than one element of space, kept.
 *  Precision: match; computed in f32.
 *  Gradient: as batch_norm.
 *  Errors: ShapeError, DtypeError, ValueError.
 *  Source: Ulyanov, Vedaldi, Lempitsky, Instance Normalization (2016). */
MZ_API Tensor instance_norm(const Tensor& x, const InstanceNormOptions& options = {});

}  // namespace mezzo

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
