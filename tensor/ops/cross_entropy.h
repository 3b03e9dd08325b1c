// Cross entropy: the public row, and the fused ops for targets that are class indices.
// Sees: op.h, ../reduction.h.
// Read next: ../cpu/cross_entropy.cpp (kernels), ../../autograd/rules/cross_entropy.cpp (rules).
#pragma once

#include "../op.h"
#include "../reduction.h"

namespace mezzo::op {

struct CrossEntropyAttrs {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0;
  Reduction reduction = Reduction::mean;
};

/** Operands: x (C), (N,C) or (N,C,d..), target (class indices, or probabilities like x), weight (C) or undefined. */
struct CrossEntropy {
  static constexpr OpTraits traits{.name = "cross_entropy",
                                   .precision = Precision::full,
                                   .summary = "log_softmax and the negative log-likelihood of the target",
                                   .inputs = 3};
  using Attrs = CrossEntropyAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Class indices. Results: the loss; for each line of classes its maximum and the sum of its shifted exponentials [lines, 2]; the divisor of
 *  the mean (1 for other reductions). */
struct CrossEntropyIndices {
  static constexpr OpTraits traits{.name = "cross_entropy_indices",
                                   .precision = Precision::full,
                                   .inputs = 3,
                                   .outputs = 3,
                                   .needs = {input(0) | input(1) | input(2) | output(1) | output(2)},
                                   .internal = true};
  using Attrs = CrossEntropyAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operands: g, x, target, weight, and the second and third result of the forward op. */
struct CrossEntropyBackward {
  static constexpr OpTraits traits{.name = "cross_entropy_backward",
                                   .precision = Precision::match,
                                   .inputs = 6,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs : CrossEntropyAttrs {
    DType result = DType::f32;  // x's, or what its gradient is converted to next
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

using CrossEntropyOps = type_list<CrossEntropy, CrossEntropyBackward, CrossEntropyIndices>;

/** The dimension that classes lie along: 0 for one sample alone, else 1. */
inline int class_dim(const Shape& x) { return x.rank() == 1 ? 0 : 1; }

/** Checks operands that hold scores or log-probabilities of classes, and class indices for them. Errors, naming `op`: ShapeError, DtypeError. */
void require_classes(std::string_view op, const Tensor& x, const Tensor& target, const Tensor& weight);

/** Errors, naming `op`: ShapeError unless weight (when there is one) holds one number per class of x, DtypeError unless their dtypes agree. */
void require_class_weight(std::string_view op, const Tensor& x, const Tensor& weight);

/** Throws IndexError naming `op`: class `value` at row-major place `at` among targets of a shape is neither ignore_index nor in 0..classes-1. Where
 *  nothing is ignored, ignore_index is the least i64. */
[[noreturn]] void fail_class(std::string_view op, const Shape& targets, std::int64_t at, std::int64_t value,
                             std::int64_t classes, std::int64_t ignore_index);

}  // namespace mezzo::op
