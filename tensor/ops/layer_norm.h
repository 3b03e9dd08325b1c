// Normalisation over the trailing dimensions: layer_norm, rms_norm, and their fused gradients.
#pragma once

#include "../core/op.h"

namespace mezzo::op {

/** A row consists of the last dims.rank() dimensions; weight and bias have the shape `dims`. */
struct RowNormAttrs {
  Shape dims;
  double eps = 1e-5;
};

/** (x - mean) * rstd * weight + bias over each row. Operands: x, weight, bias. Results: y and, in
 *  f32 (f64), the mean and rstd of each row. */
struct LayerNorm {
  static constexpr OpTraits traits{
      .name = "layer_norm",
      .precision = Precision::f32,
      .summary = "normalises over the trailing dimensions",
      .inputs = 3,
      .outputs = 3,
      .needs = {input(0) | input(1) | output(1) | output(2), input(0) | output(1) | output(2)}};
  using Attrs = RowNormAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Operands: g, x, weight, mean, rstd; without a mean this is the gradient of rms_norm. Results:
 *  the gradients of x, weight and bias; the latter two are empty if not wanted. */
struct LayerNormBackward {
  static constexpr OpTraits traits{.name = "layer_norm_backward",
                                   .precision = Precision::match,
                                   .inputs = 5,
                                   .outputs = 3,
                                   .differentiable = false,
                                   .internal = true};
  struct Attrs : RowNormAttrs {
    bool wants_affine = true;  // compute the gradients of weight and bias
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** x * rstd * weight over each row, with rstd = 1 / sqrt(mean(x^2) + eps). Operands: x, weight.
 *  Results: y and rstd. */
struct RmsNorm {
  static constexpr OpTraits traits{
      .name = "rms_norm",
      .precision = Precision::f32,
      .summary = "scales by the root mean square of the trailing dimensions",
      .inputs = 2,
      .outputs = 2,
      .needs = {input(0) | input(1) | output(1), input(0) | output(1)}};
  using Attrs = RowNormAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using LayerNormOps = type_list<LayerNorm, LayerNormBackward, RmsNorm>;

}  // namespace mezzo::op
