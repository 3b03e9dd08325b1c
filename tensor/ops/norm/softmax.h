// Softmax, softmin and log_softmax. ops.h explains the notation and the precision tags.
#pragma once

#include <optional>

#include "../../core/op.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Options of log_softmax, softmax and softmin. */
struct SoftmaxOptions {
  std::optional<DType> dtype = {};  // convert the input to it first
};

/** Returns the logarithm of softmax along `dim`: x - max - log(sum(exp(x - max))).
 *  Shape: x's.
 *  Precision: f32.
 *  Gradient: g - exp(y) * sum(g).
 *  Errors: IndexError; DtypeError for integers.
 *  Source: Goodfellow, Bengio, Courville, Deep Learning, 4.1. */
MZ_API Tensor log_softmax(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options = {});
/** Returns exp(x) scaled to sum to 1 along `dim`. A slice that is all -inf, or contains +inf, gives
 *  nan.
 *  Shape: x's.
 *  Precision: f32.
 *  Gradient: y * (g - sum(g * y)).
 *  Errors: IndexError; DtypeError for integers. */
MZ_API Tensor softmax(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options = {});
/** Returns softmax(-x, dim). */
MZ_API Tensor softmin(const Tensor& x, std::int64_t dim, const SoftmaxOptions& options = {});

}  // namespace mezzo

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
