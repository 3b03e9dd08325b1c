// Winograd's algorithm F(2x2, 3x3) for convolutions with a 3 x 3 kernel, stride 1 and sums in f32:
// a tile of 2 x 2 results takes 16 products per pair of channels instead of 36. The gradient of the
// images is such a convolution; that of the weight is F(3x3, 2x2) with the same 16 products.
// (Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015.)
//
// Error: a transform adds pixels, or weights, so an error is relative to the sum, over the input
// channels, of the largest pixel times the sum of the weights, in absolute values. Where the pixels
// and the weights of a channel are of similar size, the error is kWinogradError or less, relative
// to the sum of the absolute values of the terms; measured with up to 512 channels, it is 0.5 to 3
// times that of a direct sum. The transforms of small integers are exact.
//
// Infinities and NaN: the transforms spread them, and overflow near the largest numbers. Each
// result that is not finite is therefore computed again as a direct sum. If a transformed weight or
// a gradient of a weight is not finite, the direct kernels compute the whole call.
#pragma once

#include "../../cpu/gemm_panels.h"
#include "conv_plan_cpu.h"

namespace mezzo::cpu_kernels {

/** Bound of the error of a result of up to 512 channels if all terms are positive, the worst case.
 *  Where signs are random it is a tenth of that. */
inline constexpr double kWinogradError = 1e-5;

/** Returns whether the algorithm is used for a convolution or one of its gradients: a 3 x 3 kernel
 *  of stride 1 and dilation 1 without groups, where it was measured to be at least 1.2 times as
 * fast as the direct kernels. That takes 32 channels on both sides, so that the products outweigh
 * the transforms of images; 32 tiles, so that they outweigh that of the weights; and tiles that lie
 *  within the result by three quarters. `out` is the size of the result of the convolution, or of
 *  the transposed one. */
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
