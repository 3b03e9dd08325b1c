// The connectionist temporal classification loss. ops.h explains the notation and the precision
// tags.
#pragma once

#include <vector>

#include "../../core/op.h"
#include "../../core/reduce_options.h"
#include "../../core/tensor.h"

namespace mezzo {

/** Options of ctc_loss. */
struct CtcLossOptions {
  std::int64_t blank = 0;  // the class that means "no label"
  Reduction reduction =
      Reduction::mean;         // mean: each loss is first divided by max(1, its number of labels)
  bool zero_infinity = false;  // a target without any alignment has loss 0 instead of infinity
};

/** Returns the negative log-likelihood of label sequences, summed over all their alignments to
 *  longer sequences of outputs. Without labels the only alignment is all blanks. A target without
 *  any alignment has an infinite loss and a gradient of nan, unless zero_infinity is set.
 *  Shape: log_probs [t,n,c] with targets [n,s], padded, or 1-D, all concatenated; or log_probs
 *  [t,c] with targets [s]. Lengths: one integer per sample.
 *  Precision: f32; sums run in f64, one rounding.
 *  Gradient: that of the scores whose log_softmax is log_probs: exp(log_probs) minus the expected
 *  alignment, 0 beyond the length of an input. Finite differences on the scores match it; finite
 *  differences on log_probs alone do not. First order only.
 *  Errors: ShapeError, DtypeError; ValueError for lengths or a blank out of range; IndexError for a
 *  label that is not a class, or is the blank.
 *  Source: Graves, Fernandez, Gomez, Schmidhuber, ICML 2006. */
MZ_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, const CtcLossOptions& options = {});
/** Does the same for lengths in vectors, with one entry per sample. */
MZ_API Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets,
                       const std::vector<std::int64_t>& input_lengths,
                       const std::vector<std::int64_t>& target_lengths,
                       const CtcLossOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

/** CTC loss. Operands: log-probabilities (t,n,c) or (t,c), targets (n,s) padded or 1-D
 *  concatenated, input lengths, target lengths. */
struct CtcLoss {
  static constexpr OpTraits traits{
      .name = "ctc_loss",
      .precision = Precision::f32,
      .summary = "negative log-likelihood of label sequences, summed over alignments",
      .inputs = 4};
  struct Attrs {
    std::int64_t blank = 0;
    Reduction reduction = Reduction::mean;
    bool zero_infinity = false;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Attributes of the fused ops, derived from the operands of CtcLoss. */
struct CtcAttrs {
  std::int64_t blank = 0;
  bool zero_infinity = false;
  // One entry per sample; target_starts are offsets into the elements of the targets.
  std::vector<std::int64_t> input_lengths, target_lengths, target_starts;
};

/** The negative log-likelihood of each sample (n). Operands: log-probabilities (t,n,c), targets
 *  (i64, row-major). */
struct CtcLossEach {
  static constexpr OpTraits traits{.name = "ctc_loss_each",
                                   .precision = Precision::match,
                                   .inputs = 2,
                                   .needs = {input(0) | input(1)},
                                   .twice_differentiable = false,
                                   .internal = true};
  using Attrs = CtcAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Gradient of CtcLossEach with respect to the input of the log_softmax that gave the
 *  log-probabilities. Operands: g (n), log-probabilities, targets. */
struct CtcLossBackward {
  static constexpr OpTraits traits{.name = "ctc_loss_backward",
                                   .precision = Precision::match,
                                   .inputs = 3,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = CtcAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

using CtcLossOps = type_list<CtcLoss, CtcLossBackward, CtcLossEach>;

}  // namespace mezzo::op
