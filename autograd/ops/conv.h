// Convolutions and transposed convolutions. ops.h explains the notation and the precision tags.
#pragma once

#include "../../tensor/core/tensor.h"
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
