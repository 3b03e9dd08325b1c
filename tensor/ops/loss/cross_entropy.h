// Cross entropy: the public op, and the fused ops for targets that are class indices.
#pragma once

#include "../../core/op.h"
#include "../../core/reduce_options.h"

namespace mezzo {

/** Options of cross_entropy. */
struct CrossEntropyOptions {
  Tensor weight = {};                     // factor of each class (C); a constant without gradient
  std::int64_t ignore_index = -100;       // class index of targets to leave out
  Reduction reduction = Reduction::mean;  // none, sum or mean of the losses
  double label_smoothing = 0;             // e: targets become (1 - e) target + e / C
};

/** Returns the cross entropy between scores and targets: the negative log-likelihood of the target
 *  under softmax(x).
 *  Shape: x (C), (N,C) or (N,C,d..). Targets are class indices (), (N) or (N,d..), i64 or i32, or
 *  class probabilities of x's shape and dtype. Returns one loss per target, or a 0-dim tensor. The
 *  mean divides by the sum of the weights of the target classes; for probabilities by the number of
 *  samples.
 *  Precision: f32; f16 and bf16 compute in f32 and round once.
 *  Gradient: (softmax(x) - target), weighted; exactly 0 for ignored samples. Probabilities get a
 *  gradient too. If there are no targets, or all are ignored, the mean is nan and the sum 0.
 *  On a GPU a mean or sum of few losses with a gradient is computed when it is read, or by its
 *  backward pass; until then scores and targets must stay as they are.
 *  Errors: ShapeError, DtypeError; IndexError naming the first class out of range; ValueError
 *  unless 0 <= label_smoothing <= 1; StateError when such a loss is read, if scores or targets were
 *  modified in place.
 *  Source: Goodfellow, Bengio, Courville, Deep Learning, 6.2; smoothing: Szegedy et al., CVPR
 *  2016. */
MZ_API Tensor cross_entropy(const Tensor& x, const Tensor& target,
                            const CrossEntropyOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** Attributes of cross entropy. */
struct CrossEntropyAttrs {
  std::int64_t ignore_index = -100;  // targets of this class count for nothing
  double label_smoothing = 0;        // share of the target spread evenly over all classes
  Reduction reduction = Reduction::mean;
};

/** Cross entropy. Operands: x (C), (N,C) or (N,C,d..), target (class indices, or probabilities like
 *  x), weight (C) or undefined. */
struct CrossEntropy {
  static constexpr OpTraits traits{.name = "cross_entropy",
                                   .precision = Precision::f32,
                                   .summary = "negative log-likelihood of the target under softmax",
                                   .inputs = 3};
  using Attrs = CrossEntropyAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Cross entropy for class indices. Results: the loss; the maximum and the sum of the shifted
 *  exponentials of each line of classes, [lines, 2]; the divisor of the mean (1 for other
 *  reductions). */
struct CrossEntropyIndices {
  static constexpr OpTraits traits{
      .name = "cross_entropy_indices",
      .precision = Precision::f32,
      .inputs = 3,
      .outputs = 3,
      .needs = {input(0) | input(1) | input(2) | output(1) | output(2)},
      .internal = true};
  using Attrs = CrossEntropyAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Cross entropy for class indices whose loss, a sum or a mean, is computed when it is read, or by
 *  its gradient if nothing has read it: few numbers on a device, where that saves a launch.
 * Operands: x, target. */
struct LateCrossEntropy {
  static constexpr OpTraits traits{.name = "late_cross_entropy",
                                   .precision = Precision::f32,
                                   .inputs = 2,
                                   .needs = {input(0) | input(1)},
                                   .internal = true};
  struct Attrs : CrossEntropyAttrs {
    std::uint64_t late = 0;  // name of the late result
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of x. Operands: g, x, target, weight, and the second and third result of the forward
 *  op, or, if these are undefined, the loss, which is written then, or undefined. */
struct CrossEntropyBackward {
  static constexpr OpTraits traits{.name = "cross_entropy_backward",
                                   .precision = Precision::match,
                                   .inputs = 7,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs : CrossEntropyAttrs {
    DType result = DType::f32;  // x's dtype, or the dtype its gradient is converted to next
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

using CrossEntropyOps =
    type_list<CrossEntropy, CrossEntropyBackward, CrossEntropyIndices, LateCrossEntropy>;

/** Memory for the results of CrossEntropyIndices. */
struct CrossEntropyResults {
  std::array<Tensor, 3> of;

  /** For the operands of the op; `loss`: that of the first result, or undefined. */
  CrossEntropyResults(Inputs in, const CrossEntropyAttrs& attrs, const Tensor& loss);
};

/** Returns the class dimension: 0 for a single sample, else 1. */
inline int class_dim(const Shape& x) { return x.rank() == 1 ? 0 : 1; }

/** Checks operands that hold scores or log-probabilities of classes, and their class indices.
 *  Errors, naming `op`: ShapeError, DtypeError. */
void require_classes(std::string_view op, const Tensor& x, const Tensor& target,
                     const Tensor& weight);

/** Checks the class weights. Errors, naming `op`: ShapeError unless weight, if defined, holds one
 *  number per class of x; DtypeError unless their dtypes are equal. */
void require_class_weight(std::string_view op, const Tensor& x, const Tensor& weight);

/** Throws IndexError naming `op`: class `value` at row-major position `at` of the targets is
 *  neither ignore_index nor in 0..classes-1. If no class is ignored, ignore_index is the least
 *  i64. */
[[noreturn]] void fail_class(std::string_view op, const Shape& targets, std::int64_t at,
                             std::int64_t value, std::int64_t classes, std::int64_t ignore_index);

}  // namespace mezzo::op
