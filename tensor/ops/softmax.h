// Softmax and its logarithm along one dimension, and their fused gradients.
#pragma once

#include "../core/op.h"

namespace mezzo::op {

struct DimAttrs {
  int dim = 0;
};

/** x - max - log(sum(exp(x - max))) along dim. */
struct LogSoftmax {
  static constexpr OpTraits traits{.name = "log_softmax",
                                   .precision = Precision::f32,
                                   .summary = "logarithm of softmax, without underflow",
                                   .needs = {output(0)}};
  using Attrs = DimAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of log_softmax: g - exp(y) * sum(g). Operands: g, y. */
struct LogSoftmaxBackward {
  static constexpr OpTraits traits{.name = "log_softmax_backward",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = DimAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** exp(x - max) / sum(exp(x - max)) along dim. A line that is all -inf, or contains +inf, gives
 *  nan. */
struct Softmax {
  static constexpr OpTraits traits{.name = "softmax",
                                   .precision = Precision::f32,
                                   .summary = "exponentials scaled to sum to 1 along a dimension",
                                   .needs = {output(0)}};
  using Attrs = DimAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of softmax: y * (g - sum(g * y)). Operands: g, y. */
struct SoftmaxBackward {
  static constexpr OpTraits traits{.name = "softmax_backward",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = DimAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** softmax(-x). */
struct Softmin {
  static constexpr OpTraits traits{
      .name = "softmin", .precision = Precision::f32, .summary = "softmax of -x"};
  using Attrs = DimAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using SoftmaxOps = type_list<LogSoftmax, LogSoftmaxBackward, Softmax, SoftmaxBackward, Softmin>;

}  // namespace mezzo::op
