// Convolutions in 1, 2 and 3 dimensions and the op for the weight's gradient. The gradients of a
// convolution, a transposed convolution and conv_weight are made of these three kinds.
#pragma once

#include <array>

#include "../core/op.h"

namespace mezzo::op {

/** One number per spatial dimension, outermost first; entries from `dims` on are unused. */
using Extent = std::array<std::int64_t, 3>;

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
