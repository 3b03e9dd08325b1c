#include "conv.h"

#include <algorithm>

#include "../../tensor/core/checked_size.h"
#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/conv.h"
#include "../../tensor/text/text.h"

namespace mezzo {

namespace {

/** Sets paddings that keep the sizes at stride 1. */
void pad_same(op::ConvAttrs& attrs, const Tensor& weight, const char* op) {
  for (int i = 0; i < attrs.dims; ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (attrs.stride[d] != 1)
      fail<ValueError>(
          op, {.what = "padding \"same\" needs stride 1", .got = str("stride ", attrs.stride[d])});
    // The op throws for a weight of another rank.
    if (weight.dim() != attrs.dims + 2) continue;
    // The op throws for an empty kernel.
    const std::int64_t taps = std::max<std::int64_t>(weight.shape()[2 + i], 1);
    const std::int64_t total = checked_product({attrs.dilation[d], taps - 1}, op);
    attrs.pad_begin[d] = total / 2;
    attrs.pad_end[d] = total - total / 2;
  }
}

template <class Op>
Tensor conv(int dims, const Tensor& x, const Tensor& weight, const Tensor& bias,
            const ConvOptions& options) {
  const char* op = Op::traits.name.data();
  op::ConvAttrs attrs{.dims = dims, .groups = options.groups};
  attrs.stride = options.stride.expanded(dims, op, "stride");
  attrs.dilation = options.dilation.expanded(dims, op, "dilation");
  attrs.pad_begin = attrs.pad_end = options.padding.sizes().expanded(dims, op, "padding");
  if (options.padding.same()) pad_same(attrs, weight, op);
  return apply_with<Op>(attrs, x, weight, bias);
}

template <class Op>
Tensor conv_transpose(int dims, const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const ConvTransposeOptions& options) {
  const char* op = Op::traits.name.data();
  op::ConvAttrs attrs{.dims = dims, .groups = options.groups};
  attrs.stride = options.stride.expanded(dims, op, "stride");
  attrs.dilation = options.dilation.expanded(dims, op, "dilation");
  attrs.pad_begin = attrs.pad_end = options.padding.expanded(dims, op, "padding");
  attrs.output_padding = options.output_padding.expanded(dims, op, "output_padding");
  return apply_with<Op>(attrs, x, weight, bias);
}

}  // namespace

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions& options) {
  return conv<op::Conv1d>(1, x, weight, bias, options);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions& options) {
  return conv<op::Conv2d>(2, x, weight, bias, options);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const ConvOptions& options) {
  return conv<op::Conv3d>(3, x, weight, bias, options);
}

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return conv_transpose<op::ConvTranspose1d>(1, x, weight, bias, options);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return conv_transpose<op::ConvTranspose2d>(2, x, weight, bias, options);
}
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const ConvTransposeOptions& options) {
  return conv_transpose<op::ConvTranspose3d>(3, x, weight, bias, options);
}

}  // namespace mezzo
