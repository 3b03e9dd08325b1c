// Connectionist temporal classification: the loss of all alignments of a label sequence with a longer sequence of outputs.
// Sees: op.h, ../reduction.h.
// Read next: ../cpu/ctc_loss.cpp (kernels), ../../autograd/rules/ctc_loss.cpp (composite, rule).
#pragma once

#include "../op.h"
#include "../reduction.h"

namespace mezzo::op {

/** Operands: log-probabilities (t,n,c) or (t,c), targets (n,s) padded or 1-D in a row, lengths of inputs, lengths of targets. */
struct CtcLoss {
  static constexpr OpTraits traits{.name = "ctc_loss",
                                   .precision = Precision::full,
                                   .summary = "label sequences without alignment",
                                   .inputs = 4};
  struct Attrs {
    std::int64_t blank = 0;
    Reduction reduction = Reduction::mean;
    bool zero_infinity = false;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** What CtcLoss has made of its operands. */
struct CtcAttrs {
  std::int64_t blank = 0;
  bool zero_infinity = false;
  std::vector<std::int64_t> input_lengths, target_lengths,
      target_starts;  // one per sample; starts in the targets' elements
};

/** The negative log-likelihood of every sample (n). Operands: log-probabilities (t,n,c), targets (i64, row-major). */
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

/** Its gradient, with respect to what log_softmax made the log-probabilities of. Operands: g (n), log-probabilities, targets. */
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
