// Normalisation per channel over the batch: batch_norm, its fused gradient, and the update of its running statistics.
// Sees: op.h.
// Read next: ../cpu/batch_norm.cpp (kernels), ../../autograd/rules/batch_norm.cpp (rules).
#pragma once

#include "../op.h"

namespace mezzo::op {

/** (x - mean) * rstd * weight + bias per channel (dimension 1), rstd = 1 / sqrt(var + eps). Operands x, weight, bias, mean, var, all but x
 *  optional. Training: mean and biased variance of the batch; else the given ones. Results y, mean, rstd, var, the latter three in f32 (f64). */
struct BatchNorm {
  static constexpr OpTraits traits{
      .name = "batch_norm",
      .precision = Precision::match,
      .summary = "normalises each channel over the batch",
      .inputs = 5,
      .outputs = 4,
      .needs = {input(0) | input(1) | output(1) | output(2), input(0) | output(1) | output(2)}};
  struct Attrs {
    bool training = false;
    double eps = 1e-5;
    bool tracks = false;  // training moves the given mean and var, row-major ones, towards those of the batch
    double momentum = 0.1;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operands g, x, weight, mean, rstd; results the gradients of x, weight and bias. */
struct BatchNormBackward {
  static constexpr OpTraits traits{.name = "batch_norm_backward",
                                   .precision = Precision::match,
                                   .inputs = 5,
                                   .outputs = 3,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = BatchNorm::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** running = (1 - momentum) * running + momentum * scale * batch, in place. */
struct UpdateRunning {
  static constexpr OpTraits traits{.name = "update_running",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .differentiable = false,
                                   .in_place = true,
                                   .internal = true};
  struct Attrs {
    double momentum = 0.1;
    double scale = 1;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** One element of that, in the arithmetic's type. */
template <class C> MZ_HD C updated_running(const UpdateRunning::Attrs& attrs, C running, C batch) {
  const C keep = static_cast<C>(1 - attrs.momentum), take = static_cast<C>(attrs.momentum);
  return keep * running + take * (static_cast<C>(attrs.scale) * batch);
}

/** How a tracked variance moves: towards the unbiased one of `count` values. */
MZ_HD constexpr double unbiased_scale(std::int64_t count) {
  return static_cast<double>(count) / static_cast<double>(count - 1);
}

using BatchNormOps = type_list<BatchNorm, BatchNormBackward, UpdateRunning>;

}  // namespace mezzo::op
