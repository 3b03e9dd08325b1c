// Convolution and transposed convolution layers in 1, 2 and 3 dimensions.
// See also: tensor/ops/conv/conv.h (the functions).
#pragma once

#include "../tensor/ops/conv/conv.h"
#include "model.h"

namespace mezzo::nn {

/** Options of the convolution layers. */
struct ConvLayerOptions {
  WindowSizes stride = 1;    // step between windows
  ConvPadding padding = 0;   // number of zeros on each side; or "same", "valid"
  WindowSizes dilation = 1;  // distance between kernel elements
  std::int64_t groups = 1;   // channel groups that are convolved separately
  bool bias = true;          // adds a bias for each output channel
};

/** Options of the transposed convolution layers. */
struct ConvTransposeLayerOptions {
  WindowSizes stride = 1;          // step between windows
  WindowSizes padding = 0;         // elements removed on each side of the result
  WindowSizes output_padding = 0;  // elements added at the end of the result
  std::int64_t groups = 1;         // channel groups that are convolved separately
  bool bias = true;                // adds a bias for each output channel
  WindowSizes dilation = 1;        // distance between kernel elements
};

/** Common base of the convolution layers.
 *  Parameters: weight [out, in/groups, kernel...] and bias [out], both from
 *  U(-1, 1) / sqrt(in/groups * size of the kernel).
 *  Errors: ValueError for channels below 1, groups that do not divide both channel counts, and a
 *  kernel below 1. */
template <class Derived, int kDims> class MZ_API ConvLayer : public Model<Derived> {
 public:
  /** Constructs a layer with a kernel of one size for all dimensions, or one for each. */
  ConvLayer(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
            const ConvLayerOptions& options);

  /** Returns conv1d(), conv2d() or conv3d() of x with the layer's weight, bias and options. */
  Tensor forward(const Tensor& x) const;

  /** Returns the kernel, [out, in/groups, kernel...]. */
  const Tensor& weight() const { return weight_; }
  /** Returns the bias; undefined without the option `bias`. */
  const Tensor& bias() const { return bias_; }

 private:
  ConvOptions options_;
  Tensor weight_, bias_;
};

/** Common base of the transposed convolution layers.
 *  Parameters: weight [in, out/groups, kernel...] and bias [out], both from
 *  U(-1, 1) / sqrt(out/groups * size of the kernel).
 *  Errors: as ConvLayer. */
template <class Derived, int kDims> class MZ_API ConvTransposeLayer : public Model<Derived> {
 public:
  /** Constructs a layer with a kernel of one size for all dimensions, or one for each. */
  ConvTransposeLayer(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
                     const ConvTransposeLayerOptions& options);

  /** Returns conv_transpose1d(), conv_transpose2d() or conv_transpose3d() of x with the layer's
   *  weight, bias and options. */
  Tensor forward(const Tensor& x) const;

  /** Returns the kernel, [in, out/groups, kernel...]. */
  const Tensor& weight() const { return weight_; }
  /** Returns the bias; undefined without the option `bias`. */
  const Tensor& bias() const { return bias_; }

 private:
  ConvTransposeOptions options_;
  Tensor weight_, bias_;
};

/** Cross-correlates the input with a trained kernel: `nn::Conv2d{1, 32, 5, {.padding = 2}}`.
 *  Shape: [N,C,...] or [C,...]; spatial sizes become
 *  floor((in + 2 padding - dilation (kernel - 1) - 1) / stride) + 1.
 *  Precision: low.
 *  Errors: calls throw as conv2d() does. */
struct MZ_API Conv1d : ConvLayer<Conv1d, 1> {
  /** Constructs a layer for [N,C,L] or [C,L]; `kernel` is its length. */
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
         const ConvLayerOptions& options = {});
};
/** Two-dimensional Conv1d, for [N,C,H,W] or [C,H,W]. */
struct MZ_API Conv2d : ConvLayer<Conv2d, 2> {
  /** Constructs a layer with a square kernel, or one of sizes {height, width}. */
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
         const ConvLayerOptions& options = {});
};
/** Three-dimensional Conv1d, for [N,C,D,H,W] or [C,D,H,W]. */
struct MZ_API Conv3d : ConvLayer<Conv3d, 3> {
  /** Constructs a layer with a cubic kernel, or one of sizes {depth, height, width}. */
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
         const ConvLayerOptions& options = {});
};

/** Applies the adjoint of a convolution with respect to its input, with a trained kernel.
 *  Shape: [N,C,...] or [C,...]; spatial sizes become
 *  (in - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.
 *  Precision: low.
 *  Errors: calls throw as conv_transpose2d() does. */
struct MZ_API ConvTranspose1d : ConvTransposeLayer<ConvTranspose1d, 1> {
  /** Constructs a layer for [N,C,L] or [C,L]; `kernel` is its length. */
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
                  const ConvTransposeLayerOptions& options = {});
};
/** Two-dimensional ConvTranspose1d, for [N,C,H,W] or [C,H,W]. */
struct MZ_API ConvTranspose2d : ConvTransposeLayer<ConvTranspose2d, 2> {
  /** Constructs a layer with a square kernel, or one of sizes {height, width}. */
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
                  const ConvTransposeLayerOptions& options = {});
};
/** Three-dimensional ConvTranspose1d, for [N,C,D,H,W] or [C,D,H,W]. */
struct MZ_API ConvTranspose3d : ConvTransposeLayer<ConvTranspose3d, 3> {
  /** Constructs a layer with a cubic kernel, or one of sizes {depth, height, width}. */
  ConvTranspose3d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
                  const ConvTransposeLayerOptions& options = {});
};

extern template class ConvLayer<Conv1d, 1>;
extern template class ConvLayer<Conv2d, 2>;
extern template class ConvLayer<Conv3d, 3>;
extern template class ConvTransposeLayer<ConvTranspose1d, 1>;
extern template class ConvTransposeLayer<ConvTranspose2d, 2>;
extern template class ConvTransposeLayer<ConvTranspose3d, 3>;

}  // namespace mezzo::nn
