// Gradients of convolution, transposed convolution and the weight's gradient. The gradients of each
// are calls of the other two.
#include "../../tensor/ops/conv.h"

#include "../../tensor/core/dispatch.h"
#include "../ops/reduce.h"
#include "wide.h"

namespace mezzo::op {

namespace {

/** Returns the attributes of one of the other two ops, with a result of the spatial sizes of
 *  `shape` and of the memory format of the saved op. */
ConvAttrs gradient_attrs(const Saved& saved, const ConvAttrs& attrs, const Shape& shape) {
  ConvAttrs out = attrs;
  for (const TensorMeta& meta : saved.input_meta.first(2))
    if (meta.shape.rank() == attrs.dims + 2 && meta.format == MemoryFormat::channels_last)
      out.format = MemoryFormat::channels_last;
  for (int i = 0; i < attrs.dims; ++i)
    out.sizes[static_cast<std::size_t>(i)] = shape[shape.rank() - attrs.dims + i];
  return out;
}

Tensor convolve(const ConvAttrs& attrs, const Tensor& x, const Tensor& w) {
  const Tensor no_bias;
  if (attrs.dims == 1) return apply_with<Conv1d>(attrs, x, w, no_bias);
  if (attrs.dims == 2) return apply_with<Conv2d>(attrs, x, w, no_bias);
  return apply_with<Conv3d>(attrs, x, w, no_bias);
}

Tensor convolve_transposed(const ConvAttrs& attrs, const Tensor& x, const Tensor& w) {
  const Tensor no_bias;
  if (attrs.dims == 1) return apply_with<ConvTranspose1d>(attrs, x, w, no_bias);
  if (attrs.dims == 2) return apply_with<ConvTranspose2d>(attrs, x, w, no_bias);
  return apply_with<ConvTranspose3d>(attrs, x, w, no_bias);
}

/** Returns the gradient of the weight of a convolution from x to y, whose operand 1 it is. */
Tensor weight_grad(const Saved& saved, const ConvAttrs& attrs, const Tensor& x, const Tensor& gy) {
  ConvAttrs of_weight = gradient_attrs(saved, attrs, saved.shape(1));
  of_weight.stored = wider_weight_gradient(saved);
  return apply_with<ConvWeight>(of_weight, x, gy);
}

/** Returns the sum of g over all dimensions but the channels. */
Tensor bias_grad(const Tensor& g, int dims) {
  std::vector<std::int64_t> others;
  for (int i = 0; i < g.dim(); ++i)
    if (i != g.dim() - dims - 1) others.push_back(i);
  return sum(g, others);
}

}  // namespace

Grads ConvFunctions::backward(const Saved& saved, const Grads& gy) {
  const ConvAttrs& attrs = saved.attrs<ConvFunctions>();
  Grads grads(3);
  if (saved.wants(0))
    grads[0] =
        convolve_transposed(gradient_attrs(saved, attrs, saved.shape(0)), gy[0], saved.inputs[1]);
  if (saved.wants(1)) grads[1] = weight_grad(saved, attrs, saved.inputs[0], gy[0]);
  if (saved.wants(2)) grads[2] = bias_grad(gy[0], attrs.dims);
  return grads;
}

Grads ConvTransposeFunctions::backward(const Saved& saved, const Grads& gy) {
  const ConvAttrs& attrs = saved.attrs<ConvTransposeFunctions>();
  Grads grads(3);
  if (saved.wants(0))
    grads[0] = convolve(gradient_attrs(saved, attrs, saved.shape(0)), gy[0], saved.inputs[1]);
  if (saved.wants(1)) grads[1] = weight_grad(saved, attrs, gy[0], saved.inputs[0]);
  if (saved.wants(2)) grads[2] = bias_grad(gy[0], attrs.dims);
  return grads;
}

Grads ConvWeight::backward(const Saved& saved, const Grads& gy) {
  const ConvAttrs& attrs = saved.attrs<ConvWeight>();
  Grads grads(2);
  if (saved.wants(0))
    grads[0] =
        convolve_transposed(gradient_attrs(saved, attrs, saved.shape(0)), saved.inputs[1], gy[0]);
  if (saved.wants(1))
    grads[1] = convolve(gradient_attrs(saved, attrs, saved.shape(1)), saved.inputs[0], gy[0]);
  return grads;
}

}  // namespace mezzo::op
