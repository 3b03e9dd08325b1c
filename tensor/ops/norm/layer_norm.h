// Normalisation over the trailing dimensions: layer_norm, also of a sum, rms_norm, and their fused
// gradients.
#pragma once

#include <optional>

#include "../../core/op.h"

namespace mezzo {

/** Options of layer_norm. */
struct LayerNormOptions {
  Tensor weight = {},  // factor, of the normalised shape; undefined: 1
      bias = {};       // added, of the normalised shape; undefined: 0
  double eps = 1e-5;   // added to the variance
};

/** Returns (x - mean) * rstd * weight + bias over the last dimensions, whose sizes are
 *  `normalized_shape`; rstd = 1 / sqrt(biased variance + eps).
 *  Precision: f32; with casts off it computes in f32 and returns x's dtype. Weight and bias may
 *  have any floating-point dtype.
 *  Gradient: rstd * (gw - mean(gw) - xh * mean(gw * xh)) with gw = g * weight, and xh the
 *  normalised x.
 *  Errors: ShapeError, DtypeError.
 *  Source: Ba, Kiros, Hinton, Layer Normalization (2016). */
MZ_API Tensor layer_norm(const Tensor& x, const Shape& normalized_shape,
                         const LayerNormOptions& options = {});

/** Options of rms_norm. */
struct RmsNormOptions {
  Tensor weight = {};  // of the normalised shape; undefined: 1
  /** Added to the mean of squares; not given: the machine epsilon of the arithmetic, 2^-23 (2^-52
   *  for f64). */
  std::optional<double> eps = {};
};

/** Returns x * rstd * weight over the last dimensions, whose sizes are `normalized_shape`; rstd = 1
 *  / sqrt(mean(x^2) + eps).
 *  Precision: f32, as layer_norm.
 *  Gradient: rstd * (gw - xh * mean(gw * xh)).
 *  Errors: ShapeError, DtypeError.
 *  Source: Zhang, Sennrich, Root Mean Square Layer Normalization (2019). */
MZ_API Tensor rms_norm(const Tensor& x, const Shape& normalized_shape,
                       const RmsNormOptions& options = {});

}  // namespace mezzo

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
    // Dtypes of these gradients where x is not f64. The CPU kernel computes them in f32, and the
    // engine rounds them.
    DType weight = DType::f32, bias = DType::f32;
  };
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
};

/** The layer norm of x + branch, with the bits of add and layer_norm. Operands: x and branch, of
 *  one shape and dtype; weight, bias. Results: x + branch, then those of LayerNorm. */
struct AddLayerNorm {
  static constexpr Needs kStatistics = output(2) | output(3);
  static constexpr OpTraits traits{
      .name = "add_layer_norm",
      .precision = Precision::match,
      .inputs = 4,
      .outputs = 4,
      .needs = {input(2) | output(0) | kStatistics, input(2) | output(0) | kStatistics,
                output(0) | kStatistics},
      .internal = true};
  using Attrs = RowNormAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** The gradient of AddLayerNorm: LayerNormBackward, whose gradient of x is rounded and added to
 *  that of the sum. Operands: those of LayerNormBackward, with x the sum, and the gradient of the
 *  sum, which has x's shape and dtype. */
struct AddLayerNormBackward {
  static constexpr OpTraits traits{.name = "add_layer_norm_backward",
                                   .precision = Precision::match,
                                   .inputs = 6,
                                   .outputs = 3,
                                   .differentiable = false,
                                   .internal = true};
  using Attrs = LayerNormBackward::Attrs;
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

using LayerNormOps =
    type_list<AddLayerNorm, AddLayerNormBackward, LayerNorm, LayerNormBackward, RmsNorm>;

}  // namespace mezzo::op
