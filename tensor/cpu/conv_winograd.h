// Winograd's algorithm F(2x2, 3x3) for convolutions with a 3 x 3 kernel, stride 1 and sums in f32:
// a tile of 2 x 2 results takes 16 products per pair of channels instead of 36. The gradient of the
// images is such a convolution; that of the weight is F(3x3, 2x2) with the same 16 products.
// (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.)
//
// Error: a result differs from the exact one by at most kWinogradError times the sum of the
// absolute values of its terms, for sums of up to 512 channels. The transforms add and subtract
// numbers that cancel only in the result, so the error is 2 to 4 times that of a direct sum. They
// are exact for small integers.
//
// Infinities and NaN: the transforms spread them, and overflow near the largest numbers. Each
// result that is not finite is therefore computed again as a direct sum. If a transformed weight or
// a gradient of a weight is not finite, the direct kernels compute the whole call.
#pragma once

#include "conv_plan.h"
#include "gemm_panels.h"

namespace mezzo::cpu_kernels {

/** Bound of the error of a result, relative to the sum of the absolute values of its terms. */
inline constexpr double kWinogradError = 2e-6;

/** Returns whether the algorithm is used for a convolution and its gradients: a 3 x 3 kernel of
 *  stride 1 and dilation 1 without groups, where it is at least 1.2 times as fast as the direct
 *  kernels. That takes enough channels for the products to outweigh the transforms, enough tiles to
 *  transform the weights for, and tiles that lie mostly inside the result. It depends on the shape
 *  alone. `out` is the size of the result of the convolution, or of the transposed one. */
bool winograd_pays(const ConvGeometry& g, std::int64_t batch, std::int64_t channels_in,
                   std::int64_t channels_out, const Extent& out);

/** A convolution, or a transposed one, whose geometry is that of the convolution from its result to
 *  its input. */
struct WinogradCall {
  Images x, y;
  Tensor w, bias;  // bias may be undefined
  Extent pad{};    // of the geometry
  bool transposed = false;
};
/** Computes it. Returns false, and writes nothing, if a transformed weight is not finite. */
bool winograd_convolve(const WinogradCall& call);

/** Computes the gradient of the weight, whose rows of output channels are `w`, in f32 before the
 *  rounding. y has the gradients of the result. Returns false if an element is not finite; the
 *  others have been written then. */
bool winograd_weight(const Images& x, const Images& y, const Extent& pad, const MatrixOut& w,
                     MemoryFormat weight_format);

}  // namespace mezzo::cpu_kernels
