// Connectionist temporal classification: the loss over all alignments of a label sequence with a
// longer sequence of outputs.
#pragma once

#include "../core/op.h"
#include "../core/reduction.h"

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
