// The losses that compare predictions with targets element by element, and nll_loss. Each public op
// is a composite.
// See also: tensor/elementwise/loss_terms.h (the formulas).
#pragma once

#include "../core/op.h"
#include "../core/reduction.h"

namespace mezzo::op {

namespace detail {

constexpr OpTraits loss(std::string_view name, std::string_view summary, int inputs = 2) {
  return {.name = name, .precision = Precision::f32, .summary = summary, .inputs = inputs};
}

}  // namespace detail

struct LossAttrs {
  Reduction reduction = Reduction::mean;
};

/** Attributes of a loss with one parameter: beta, delta or margin. */
struct ShapedLossAttrs {
  double parameter = 1;
  Reduction reduction = Reduction::mean;
};

/** Operands: x, target, weight or undefined. Refused under casts: a 16-bit probability is too
 *  imprecise for the logarithm. */
struct BinaryCrossEntropy {
  static constexpr OpTraits traits{.name = "binary_cross_entropy",
                                   .precision = Precision::banned,
                                   .summary = "cross entropy of probabilities of two classes",
                                   .inputs = 3};
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: x, target, weight or undefined, pos_weight or undefined. */
struct BinaryCrossEntropyWithLogits {
  static constexpr OpTraits traits = detail::loss("binary_cross_entropy_with_logits",
                                                  "cross entropy of two classes, from scores", 4);
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct HuberLoss {
  static constexpr OpTraits traits =
      detail::loss("huber_loss", "squared error near 0, absolute beyond");
  using Attrs = ShapedLossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: x (logarithms), target. */
struct KlDiv {
  static constexpr OpTraits traits = detail::loss("kl_div", "Kullback-Leibler divergence");
  struct Attrs {
    bool log_target = false;
    Reduction reduction = Reduction::mean;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct L1Loss {
  static constexpr OpTraits traits = detail::loss("l1_loss", "absolute error");
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct MseLoss {
  static constexpr OpTraits traits = detail::loss("mse_loss", "squared error");
  using Attrs = LossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

/** Operands: x (log-probabilities), target (class indices), weight (C) or undefined. */
struct NllLoss {
  static constexpr OpTraits traits =
      detail::loss("nll_loss", "negative log-likelihood of the target class", 3);
  struct Attrs {
    std::int64_t ignore_index = -100;
    Reduction reduction = Reduction::mean;
  };
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

struct SmoothL1Loss {
  static constexpr OpTraits traits =
      detail::loss("smooth_l1_loss", "absolute error, squared near 0");
  using Attrs = ShapedLossAttrs;
  static std::vector<Tensor> composite(Inputs in, const Attrs& attrs);
};

using LossOps = type_list<BinaryCrossEntropy, BinaryCrossEntropyWithLogits, HuberLoss, KlDiv,
                          L1Loss, MseLoss, NllLoss, SmoothL1Loss>;

/** Checks that a reduction is not the one that only kl_div has. Errors: ValueError naming `op`. */
MZ_API void require_plain_reduction(std::string_view op, Reduction reduction);

}  // namespace mezzo::op
