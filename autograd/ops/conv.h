// Convolutions and their adjoints.
// Sees: window.h.
// Read next: ../../tensor/ops/conv.h.
#pragma once

#include "../../tensor/tensor.h"
#include "window.h"

namespace mezzo {

struct ConvOptions {
  WindowSizes stride = 1;
  ConvPadding padding = 0;
  WindowSizes dilation = 1;
  std::int64_t groups = 1;
};

/** Cross-correlation with a kernel over the last 1, 2 or 3 dimensions, plus a bias per output channel (added before the rounding).
 *  Shape: x [N,C,...] or [C,...], weight [out, C/groups, k...], bias [out] or undefined; spatial sizes become
 *  floor((in + 2 padding - dilation (k - 1) - 1) / stride) + 1.
 *  Precision: low; f16, bf16 and f32 accumulate in f32, one rounding.
 *  Gradient: the transposed convolution of g for x, the correlation of x and g for the weight, the sum of g for the bias.
 *  Errors: ShapeError, DtypeError unless all have one floating dtype, ValueError for options out of range.
 *  Source: Dumoulin, Visin, A guide to convolution arithmetic for deep learning. */
MZ_API Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {});
MZ_API Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {});
MZ_API Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                     const ConvOptions& options = {});

struct ConvTransposeOptions {
  WindowSizes stride = 1;
  WindowSizes padding = 0;
  WindowSizes output_padding = 0;
  std::int64_t groups = 1;
  WindowSizes dilation = 1;
};

/** The adjoint of a convolution in its input: every element of x adds a copy of the kernel, scaled by it, to the result.
 *  Shape: x [N,C,...] or [C,...], weight [C, out/groups, k...], bias [out] or undefined; spatial sizes become
 *  (in - 1) stride - 2 padding + dilation (k - 1) + output_padding + 1.
 *  Precision and errors as the convolutions; output_padding must be less than the larger of stride and dilation.
 *  Gradient: the convolution of g for x, the correlation of g and x for the weight, the sum of g for the bias. */
MZ_API Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {});
MZ_API Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {});
MZ_API Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                               const ConvTransposeOptions& options = {});

}  // namespace mezzo
