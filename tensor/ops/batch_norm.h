// Normalisation per channel over the batch: batch_norm, alone and with relu behind it, their fused gradients, and the update of running statistics.
// Sees: op.h.
// Read next: ../cpu/batch_norm.cpp (kernels), ../../autograd/rules/batch_norm.cpp (rules).
#pragma once

#include "../op.h"

namespace mezzo::op {

/** (x - mean) * rstd * weight + bias per channel (dimension 1), rstd = 1 / sqrt(var + eps). Operands x, weight, bias, mean, var and the number of
 *  batches, all but x optional. Training: mean and biased variance of the batch; else the given ones. Results y, mean, rstd, var, the latter three in
 *  f32 (f64). */
struct BatchNorm {
  static constexpr OpTraits traits{
      .name = "batch_norm",
      .precision = Precision::match,
      .summary = "normalises each channel over the batch",
      .inputs = 6,
      .outputs = 4,
      .needs = {input(0) | input(1) | output(1) | output(2), input(0) | output(1) | output(2)},
      .channels_last = ChannelsLast::like_first};
  struct Attrs {
    bool training = false;
    double eps = 1e-5;
    bool tracks = false;  // training moves the given mean and var, row-major ones, and counts the batch
    double momentum = 0.1;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** relu(y + residual), where y is batch_norm's, rounded to x's dtype. Operands as batch_norm's, then the residual, optional. */
struct BatchNormRelu {
  static constexpr Needs kAll = input(0) | input(1) | input(2) | output(0) | output(1) | output(2);
  static constexpr OpTraits traits{.name = "batch_norm_relu",
                                   .precision = Precision::match,
                                   .summary = "relu(batch_norm(x) + residual)",
                                   .inputs = 7,
                                   .outputs = 4,
                                   .needs = {kAll, kAll, kAll, {}, {}, {}, output(0)},
                                   .channels_last = ChannelsLast::like_first};
  using Attrs = BatchNorm::Attrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operands g, x, weight, mean, rstd; results the gradients of x, which lies as x does, of weight and of bias. */
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

/** Operands g, x, weight, mean, rstd, bias and, where there was a residual, the result y of relu: else what relu let pass follows from x, which is
 *  read anyway. Results the gradients of x, weight, bias and residual, the last one empty without; what has x's shape lies as x does. */
struct BatchNormReluBackward {
  static constexpr OpTraits traits{.name = "batch_norm_relu_backward",
                                   .precision = Precision::match,
                                   .inputs = 7,
                                   .outputs = 4,
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

/** An element of batch_norm in the arithmetic's type, with scale = rstd * weight. */
template <class C> MZ_HD C normalised(C x, C mean, C scale, C shift) { return (x - mean) * scale + shift; }

/** The largest value that becomes 0 when it is rounded to a dtype: half its smallest number, a tie that goes to the even one. */
MZ_HD constexpr double largest_rounded_to_zero(DType dtype) {
  return dtype == DType::f16 ? 0x1p-25 : dtype == DType::bf16 ? 0x1p-134 : 0;
}

/** One element of running statistics moved, in the arithmetic's type. */
template <class C> MZ_HD C updated_running(const UpdateRunning::Attrs& attrs, C running, C batch) {
  const C keep = static_cast<C>(1 - attrs.momentum), take = static_cast<C>(attrs.momentum);
  return keep * running + take * (static_cast<C>(attrs.scale) * batch);
}

/** How a tracked variance moves: towards the unbiased one of `count` values. */
MZ_HD constexpr double unbiased_scale(std::int64_t count) {
  return static_cast<double>(count) / static_cast<double>(count - 1);
}

using BatchNormOps =
    type_list<BatchNorm, BatchNormBackward, BatchNormRelu, BatchNormReluBackward, UpdateRunning>;

}  // namespace mezzo::op
