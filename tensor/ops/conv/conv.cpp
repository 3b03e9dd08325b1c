// Shape rules, gradients and public functions of the ops in conv.h.
#include "conv.h"

#include <algorithm>

#include "../../core/checked_size.h"
#include "../../core/dispatch.h"
#include "../../core/registry.h"
#include "../../text/text.h"
#include "../reduce/reduce.h"
#include "../require.h"
#include "../wide.h"

namespace mezzo::op {

namespace {

std::string op_name(const ConvAttrs& attrs, bool transposed) {
  return str(transposed ? "conv_transpose" : "conv", attrs.dims, "d");
}

/** Returns extents in the format of the options: "[2,1]". */
std::string text(const Extent& x, int dims) {
  Shape shape;
  for (int i = 0; i < dims; ++i) shape.push_back(x[static_cast<std::size_t>(i)]);
  return str(shape);
}

void require_at_least(const std::string& op, const char* what, const Extent& values, int dims,
                      std::int64_t least) {
  for (int i = 0; i < dims; ++i)
    if (values[static_cast<std::size_t>(i)] < least)
      fail<ValueError>(op, {.what = str(what, " out of range"),
                            .got = text(values, dims),
                            .expected = str("at least ", least)});
}

void require_attrs(const std::string& op, const ConvAttrs& attrs) {
  require_at_least(op, "stride", attrs.stride, attrs.dims, 1);
  require_at_least(op, "dilation", attrs.dilation, attrs.dims, 1);
  require_at_least(op, "padding", attrs.pad_begin, attrs.dims, 0);
  require_at_least(op, "padding", attrs.pad_end, attrs.dims, 0);
  require_at_least(op, "output_padding", attrs.output_padding, attrs.dims, 0);
  if (attrs.groups < 1)
    fail<ValueError>(
        op, {.what = "groups out of range", .got = str(attrs.groups), .expected = "at least 1"});
}

std::string operands(Inputs in) { return str("input ", in[0], " and weight ", in[1]); }

/** Checks channels and groups of an input, a weight and an optional bias of `out_channels`
 *  elements. */
void require_operands(const std::string& op, Inputs in, const ConvAttrs& attrs,
                      std::int64_t in_channels, std::int64_t out_channels) {
  const std::int64_t channels = in[0].shape()[in[0].dim() - attrs.dims - 1];
  if (channels != in_channels)
    fail<ShapeError>(op, {.what = "input channels do not fit the weight",
                          .got = operands(in),
                          .expected = str(in_channels, " channels"),
                          .hint = attrs.groups == 1 ? "" : str("groups is ", attrs.groups)});
  if (in_channels % attrs.groups != 0 || out_channels % attrs.groups != 0)
    fail<ShapeError>(op, {.what = "channels are not divisible by groups",
                          .got = str(operands(in), " in ", attrs.groups, " groups"),
                          .expected = "input and output channels divisible by it"});
  const Tensor& b = in[2];
  const bool wrong_bias = b.defined() && !(b.dim() == 1 && b.shape()[0] == out_channels);
  if (wrong_bias)
    fail<ShapeError>(op, {.what = "the bias does not fit the weight",
                          .got = str("bias ", b, " and weight ", in[1]),
                          .expected = str("[", out_channels, "]")});
}

void require_ranks(const std::string& op, Inputs in, int dims) {
  const bool fits = (in[0].dim() == dims + 1 || in[0].dim() == dims + 2) && in[1].dim() == dims + 2;
  if (!fits)
    fail<ShapeError>(op, {.what = "wrong number of dimensions",
                          .got = operands(in),
                          .expected = str("input of ", dims + 2, " or ", dims + 1,
                                          " dimensions, weight of ", dims + 2)});
}

/** Returns true for convolutions on a GPU whose row-major operands cuDNN would copy to
 *  channels-last order and back in each call: those of 16 bits, which Tensor Cores compute, with
 *  whole packs of channels. The copies of fewer elements take the time of their launches. */
bool prefers_channels_last(Inputs in, const ConvAttrs& attrs, const Shape& result) {
  constexpr std::int64_t kPack = 8, kLeast = std::int64_t{1} << 18;
  const Tensor& x = in[0];
  if (x.device().kind == DeviceKind::cpu || !is_low(x.dtype()) || attrs.groups != 1 ||
      x.dim() != attrs.dims + 2 || !may_be_channels_last(x.dim()))
    return false;
  const std::int64_t channels = x.shape()[1];
  return (channels < kPack || channels % kPack == 0) && result[1] % kPack == 0 &&
         x.numel() + checked_numel(result, "conv") >= kLeast;
}

/** Returns the input's shape with channels and spatial sizes replaced. */
Shape result_shape(const Tensor& x, int dims, std::int64_t channels, const Extent& sizes) {
  Shape shape = x.shape();
  const int first = shape.rank() - dims;
  shape[first - 1] = channels;
  for (int i = 0; i < dims; ++i) shape[first + i] = sizes[static_cast<std::size_t>(i)];
  return shape;
}

/** Returns the result of a convolution or its adjoint. */
OutSpecs conv_result(const std::string& op, Inputs in, const ConvAttrs& attrs,
                     std::int64_t channels, const Extent& sizes) {
  const Shape shape = result_shape(in[0], attrs.dims, channels, sizes);
  return {{.shape = shape,
           .dtype = require_one_floating_dtype(op, in),
           .format = format_of_images(in[0].dim(), attrs.dims, attrs.format),
           .prefers_channels_last = prefers_channels_last(in, attrs, shape)}};
}

}  // namespace

OutSpecs ConvFunctions::infer(Inputs in, const Attrs& attrs) {
  const std::string op = op_name(attrs, false);
  require_attrs(op, attrs);
  require_ranks(op, in, attrs.dims);
  const Shape &x = in[0].shape(), &w = in[1].shape();
  require_operands(op, in, attrs, checked_product({w[1], attrs.groups}, op), w[0]);
  Extent sizes{};
  for (int i = 0; i < attrs.dims; ++i) {
    const auto d = static_cast<std::size_t>(i);
    const WindowMove window{w[2 + i], attrs.stride[d], attrs.dilation[d]};
    const WideSize padded =
        WideSize{x[x.rank() - attrs.dims + i]} + attrs.pad_begin[d] + attrs.pad_end[d];
    if (w[2 + i] < 1 || padded < window.reach())
      fail<ShapeError>(op, {.what = "the kernel does not fit the padded input",
                            .got = operands(in),
                            .expected = str("at least ", saturated_size(window.reach()),
                                            " along spatial dimension ", i, ", padding included (",
                                            saturated_size(padded), " are there)")});
    sizes[d] = attrs.sizes[d] >= 0 ? attrs.sizes[d] : checked_size(window.places(padded), op);
  }
  return conv_result(op, in, attrs, w[0], sizes);
}

OutSpecs ConvTransposeFunctions::infer(Inputs in, const Attrs& attrs) {
  const std::string op = op_name(attrs, true);
  require_attrs(op, attrs);
  require_ranks(op, in, attrs.dims);
  const Shape &x = in[0].shape(), &w = in[1].shape();
  const std::int64_t out_channels = checked_product({w[1], attrs.groups}, op);
  require_operands(op, in, attrs, w[0], out_channels);
  Extent sizes{};
  for (int i = 0; i < attrs.dims; ++i) {
    const auto d = static_cast<std::size_t>(i);
    if (attrs.sizes[d] >= 0) {
      sizes[d] = attrs.sizes[d];
      continue;
    }
    if (attrs.output_padding[d] >= std::max(attrs.stride[d], attrs.dilation[d]))
      fail<ValueError>(
          op, {.what = "output_padding out of range",
               .got = text(attrs.output_padding, attrs.dims),
               .expected = str("less than the larger of stride ", text(attrs.stride, attrs.dims),
                               " and dilation ", text(attrs.dilation, attrs.dims))});
    const WideSize size = (WideSize{x[x.rank() - attrs.dims + i]} - 1) * attrs.stride[d] -
                          attrs.pad_begin[d] - attrs.pad_end[d] +
                          WideSize{attrs.dilation[d]} * (w[2 + i] - 1) + attrs.output_padding[d] +
                          1;
    if (w[2 + i] < 1 || size < 1)
      fail<ShapeError>(op, {.what = "the result would be empty",
                            .got = operands(in),
                            .expected = str("a positive size along spatial dimension ", i, ", not ",
                                            saturated_size(size))});
    sizes[d] = checked_size(size, op);
  }
  return conv_result(op, in, attrs, out_channels, sizes);
}

OutSpecs ConvWeight::infer(Inputs in, const Attrs& attrs) {
  const Shape &x = in[0].shape(), &y = in[1].shape();
  Shape shape{y[y.rank() - attrs.dims - 1], x[x.rank() - attrs.dims - 1] / attrs.groups};
  for (int i = 0; i < attrs.dims; ++i) shape.push_back(attrs.sizes[static_cast<std::size_t>(i)]);
  return {{.shape = shape,
           .dtype = attrs.stored.value_or(require_one_floating_dtype("conv_weight", in)),
           .format = format_of_images(in[0].dim(), attrs.dims, attrs.format)}};
}

std::span<OpInfo* const> conv_ops() { return infos_of(ConvOps{}); }

// Gradients of convolution, transposed convolution and the weight's gradient. The gradients of each
// are calls of the other two.

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
