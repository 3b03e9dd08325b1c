// Convolution and transposed convolution layers in 1, 2 and 3 dimensions.
// See also: autograd/ops/conv.h (the functions).
#pragma once

#include "../autograd/ops/conv.h"
#include "model.h"

namespace mezzo::nn {

struct ConvLayerOptions {
  WindowSizes stride = 1;    // step between windows
  ConvPadding padding = 0;   // number of zeros on each side; or "same", "valid"
  WindowSizes dilation = 1;  // distance between kernel elements
  std::int64_t groups = 1;   // channel groups that are convolved separately
  bool bias = true;          // adds a bias for each output channel
};

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
  ConvLayer(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
            const ConvLayerOptions& options);

  Tensor forward(const Tensor& x) const;

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
  ConvTransposeLayer(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
                     const ConvTransposeLayerOptions& options);

  Tensor forward(const Tensor& x) const;

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
  Conv1d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
         const ConvLayerOptions& options = {});
};
struct MZ_API Conv2d : ConvLayer<Conv2d, 2> {
  Conv2d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
         const ConvLayerOptions& options = {});
};
struct MZ_API Conv3d : ConvLayer<Conv3d, 3> {
  Conv3d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
         const ConvLayerOptions& options = {});
};

/** Applies the adjoint of a convolution with respect to its input, with a trained kernel.
 *  Shape: [N,C,...] or [C,...]; spatial sizes become
 *  (in - 1) stride - 2 padding + dilation (kernel - 1) + output_padding + 1.
 *  Precision: low.
 *  Errors: calls throw as conv_transpose2d() does. */
struct MZ_API ConvTranspose1d : ConvTransposeLayer<ConvTranspose1d, 1> {
  ConvTranspose1d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
                  const ConvTransposeLayerOptions& options = {});
};
struct MZ_API ConvTranspose2d : ConvTransposeLayer<ConvTranspose2d, 2> {
  ConvTranspose2d(std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,
                  const ConvTransposeLayerOptions& options = {});
};
struct MZ_API ConvTranspose3d : ConvTransposeLayer<ConvTranspose3d, 3> {
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
