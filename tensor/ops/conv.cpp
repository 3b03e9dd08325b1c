// Shape rules of the convolutions.
#include "conv.h"

#include "../core/checked_size.h"
#include "../core/registry.h"
#include "../text/text.h"
#include "require.h"

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

/** Returns the input's shape with channels and spatial sizes replaced. */
Shape result_shape(const Tensor& x, int dims, std::int64_t channels, const Extent& sizes) {
  Shape shape = x.shape();
  const int first = shape.rank() - dims;
  shape[first - 1] = channels;
  for (int i = 0; i < dims; ++i) shape[first + i] = sizes[static_cast<std::size_t>(i)];
  return shape;
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
  return {{.shape = result_shape(in[0], attrs.dims, w[0], sizes),
           .dtype = require_one_floating_dtype(op, in),
           .format = format_of_images(in[0].dim(), attrs.dims, attrs.format)}};
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
  return {{.shape = result_shape(in[0], attrs.dims, out_channels, sizes),
           .dtype = require_one_floating_dtype(op, in),
           .format = format_of_images(in[0].dim(), attrs.dims, attrs.format)}};
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

}  // namespace mezzo::op
