// Convolutions and transposed convolutions. ops.h explains the notation and the precision tags.
#pragma once

#include <array>

#include "../../core/op.h"
#include "../../core/tensor.h"
#include "window.h"

namespace mezzo {

/** Options of conv1d, conv2d and conv3d. */
struct ConvOptions {
  WindowSizes stride = 1;    // distance between windows
  ConvPadding padding = 0;   // zeros around the input, or "same" or "valid"
  WindowSizes dilation = 1;  // distance between the elements of a window
  std::int64_t groups = 1;   // groups of channels that are convolved separately
};

/** Computes the cross-correlation of x and weight over the last 1, 2 or 3 dimensions, plus a bias
 *  per output channel.
 *  Shape: x [N,C,...] or [C,...], weight [out, C/groups, k...], bias [out] or undefined; spatial
 *  sizes become floor((in + 2 padding - dilation (k - 1) - 1) / stride) + 1.
 *  Precision: low; f16, bf16 and f32 accumulate in f32, the bias included; one rounding.
 *  Gradient: the transposed convolution of g for x, the correlation of x and g for weight, the sum
 *  of g for bias.
 *  Errors: ShapeError; DtypeError unless all have one floating-point dtype; ValueError for options
 *  out of range.
 *  Source: Dumoulin, Visin, A guide to convolution arithmetic for deep learning. */
MZ_API Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {});
/** Does the same as conv1d over the last 2 dimensions. */
MZ_API Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {});
/** Does the same as conv1d over the last 3 dimensions. */
MZ_API Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {});

/** Options of conv_transpose1d, conv_transpose2d and conv_transpose3d. */
struct ConvTransposeOptions {
  WindowSizes stride = 1;          // of the convolution whose adjoint this is
  WindowSizes padding = 0;         // of that convolution: removed from the result
  WindowSizes output_padding = 0;  // added to the size of the result, at the end
  std::int64_t groups = 1;         // groups of channels that are convolved separately
  WindowSizes dilation = 1;        // distance between the elements of a window
};

/** Computes the transposed convolution, the adjoint of a convolution with respect to its input:
 *  each element of x adds a copy of the kernel, scaled by the element, to the result.
 *  Shape: x [N,C,...] or [C,...], weight [C, out/groups, k...], bias [out] or undefined; spatial
 *  sizes become (in - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.
 *  Precision: low, as the convolutions.
 *  Gradient: the convolution of g for x, the correlation of g and x for weight, the sum of g for
 *  bias.
 *  Errors: as the convolutions; ValueError unless output_padding is less than the larger of stride
 *  and dilation. */
MZ_API Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {});
/** Does the same as conv_transpose1d over the last 2 dimensions. */
MZ_API Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {});
/** Does the same as conv_transpose1d over the last 3 dimensions. */
MZ_API Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {});

}  // namespace mezzo

namespace mezzo::op {

// The gradients of a convolution, a transposed convolution and conv_weight are made of these three
// kinds.

/** Attributes of the convolutions. */
struct ConvAttrs {
  int dims = 2;  // number of spatial dimensions
  Extent stride{1, 1, 1}, dilation{1, 1, 1};
  // Zeros before and after the input; in a transposed convolution, before and after the output.
  Extent pad_begin{0, 0, 0}, pad_end{0, 0, 0};
  Extent output_padding{0, 0, 0};  // transposed only
  std::int64_t groups = 1;
  // Spatial sizes of the result where the operands do not determine them; -1: use the formula.
  Extent sizes{-1, -1, -1};
  // For gradients: the memory format of the tensor whose gradient is computed.
  std::optional<MemoryFormat> format = {};
  // For gradients of weights: the dtype in which they are stored after they are rounded to that of
  // the operands; by default the same.
  std::optional<DType> stored = {};
};

/** Convolution: y[o, i] = b[o] + sum over c, k of w[o, c, k] x[c, i s - p + k d]. Operands: x (n,
 *  c, ...), w (out, c / groups, k...), optional b (out). */
struct ConvFunctions {
  using Attrs = ConvAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

/** Transposed convolution: each x[c, i] adds w[c, o, k] x[c, i] to y[o, i s - p + k d]. Operands: x
 *  (n, c, ...), w (c, out / groups, k...), optional b (out). */
struct ConvTransposeFunctions {
  using Attrs = ConvAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

struct Conv1d : ConvFunctions {
  static constexpr OpTraits traits{.name = "conv1d",
                                   .precision = Precision::low,
                                   .summary = "cross-correlation over 1 dimension",
                                   .inputs = 3,
                                   .needs = {input(1), input(0), kNothing},
                                   .widens_weight_gradient = true,
                                   .channels_last = ChannelsLast::like_either};
};
struct Conv2d : ConvFunctions {
  static constexpr OpTraits traits{.name = "conv2d",
                                   .precision = Precision::low,
                                   .summary = "cross-correlation over 2 dimensions",
                                   .inputs = 3,
                                   .needs = {input(1), input(0), kNothing},
                                   .widens_weight_gradient = true,
                                   .channels_last = ChannelsLast::like_either};
};
struct Conv3d : ConvFunctions {
  static constexpr OpTraits traits{.name = "conv3d",
                                   .precision = Precision::low,
                                   .summary = "cross-correlation over 3 dimensions",
                                   .inputs = 3,
                                   .needs = {input(1), input(0), kNothing},
                                   .widens_weight_gradient = true,
                                   .channels_last = ChannelsLast::like_either};
};

struct ConvTranspose1d : ConvTransposeFunctions {
  static constexpr OpTraits traits{.name = "conv_transpose1d",
                                   .precision = Precision::low,
                                   .summary = "transposed convolution over 1 dimension",
                                   .inputs = 3,
                                   .needs = {input(1), input(0), kNothing},
                                   .widens_weight_gradient = true,
                                   .channels_last = ChannelsLast::like_either};
};
struct ConvTranspose2d : ConvTransposeFunctions {
  static constexpr OpTraits traits{.name = "conv_transpose2d",
                                   .precision = Precision::low,
                                   .summary = "transposed convolution over 2 dimensions",
                                   .inputs = 3,
                                   .needs = {input(1), input(0), kNothing},
                                   .widens_weight_gradient = true,
                                   .channels_last = ChannelsLast::like_either};
};
struct ConvTranspose3d : ConvTransposeFunctions {
  static constexpr OpTraits traits{.name = "conv_transpose3d",
                                   .precision = Precision::low,
                                   .summary = "transposed convolution over 3 dimensions",
                                   .inputs = 3,
                                   .needs = {input(1), input(0), kNothing},
                                   .widens_weight_gradient = true,
                                   .channels_last = ChannelsLast::like_either};
};

/** Gradient of a convolution's weight: w[o, c, k] = sum over batch and i of y[o, i] x[c, i s - p +
 *  k d]. Operands: x and y of the convolution. attrs.sizes are the kernel's sizes. */
struct ConvWeight {
  static constexpr OpTraits traits{.name = "conv_weight",
                                   .precision = Precision::low,
                                   .summary = "gradient of a convolution's weight",
                                   .inputs = 2,
                                   .needs = {input(1), input(0)},
                                   .internal = true,
                                   .channels_last = ChannelsLast::like_either};
  using Attrs = ConvAttrs;
  static OutSpecs infer(Inputs in, const Attrs& attrs);
  static void cpu(Inputs in, Outputs out, const Attrs& attrs);
  static Grads backward(const Saved& saved, const Grads& gy);
};

using ConvOps = type_list<Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d,
                          ConvWeight>;

}  // namespace mezzo::op
