#include "conv.h"

#include "../tensor/ops/create.h"
#include "arguments.h"
#include "init.h"

namespace mezzo::nn {

namespace {

void check_channels(const std::string& layer, std::int64_t in, std::int64_t out,
                    std::int64_t groups) {
  detail::require_at_least(1, layer, "in_channels", in);
  detail::require_at_least(1, layer, "out_channels", out);
  detail::require_at_least(1, layer, "groups", groups);
  if (in % groups != 0 || out % groups != 0)
    fail<ValueError>(layer, {.what = "groups do not divide the channels",
                             .got = str(groups, " groups for ", in, " and ", out, " channels"),
                             .expected = "a divisor of both"});
}

/** Returns the shape [first, second, kernel...]. */
Shape weight_shape(const std::string& layer, int dims, std::int64_t first, std::int64_t second,
                   const WindowSizes& kernel) {
  const op::Extent sizes = kernel.expanded(dims, layer, "kernel");
  Shape shape{first, second};
  for (int i = 0; i < dims; ++i) {
    detail::require_at_least(1, layer, "kernel", sizes[static_cast<std::size_t>(i)]);
    shape.push_back(sizes[static_cast<std::size_t>(i)]);
  }
  return shape;
}

/** Builds a layer's summary of channels, kernel and non-default options, such as
 *  "1, 32, kernel 5, padding 2". */
class Summary {
 public:
  Summary(int dims, std::int64_t in, std::int64_t out, const WindowSizes& kernel)
      : dims_(dims), text_(str(in, ", ", out)) {
    add("kernel", kernel, 0);
  }
  Summary& add(const char* name, const WindowSizes& sizes, std::int64_t usual) {
    const std::string text = detail::sizes_text(sizes, dims_);
    if (text != str(usual)) text_ += str(", ", name, " ", text);
    return *this;
  }
  Summary& add(const char* name, const std::string& value) {
    text_ += str(", ", name, " ", value);
    return *this;
  }
  Summary& groups(std::int64_t groups) { return groups == 1 ? *this : add("groups", str(groups)); }
  const std::string& text() const { return text_; }

 private:
  int dims_;
  std::string text_;
};

}  // namespace

template <class Derived, int kDims>
ConvLayer<Derived, kDims>::ConvLayer(std::int64_t in_channels, std::int64_t out_channels,
                                     const WindowSizes& kernel, const ConvLayerOptions& options)
    : options_{options.stride, options.padding, options.dilation, options.groups} {
  const std::string layer(this->kind());
  check_channels(layer, in_channels, out_channels, options.groups);
  const Shape shape =
      weight_shape(layer, kDims, out_channels, in_channels / options.groups, kernel);
  Summary summary(kDims, in_channels, out_channels, kernel);
  summary.add("stride", options.stride, 1);
  if (options.padding.same())
    summary.add("padding", "same");
  else
    summary.add("padding", options.padding.sizes(), 0);
  summary.add("dilation", options.dilation, 1).groups(options.groups);
  this->set_summary(summary.text());
  weight_ = this->add_parameter("weight", empty(shape));
  if (options.bias) bias_ = this->add_parameter("bias", empty({out_channels}));
  init::default_linear_(weight_, bias_);
}

template <class Derived, int kDims>
ConvTransposeLayer<Derived, kDims>::ConvTransposeLayer(std::int64_t in_channels,
                                                       std::int64_t out_channels,
                                                       const WindowSizes& kernel,
                                                       const ConvTransposeLayerOptions& options)
    : options_{options.stride, options.padding, options.output_padding, options.groups,
               options.dilation} {
  const std::string layer(this->kind());
  check_channels(layer, in_channels, out_channels, options.groups);
  const Shape shape =
      weight_shape(layer, kDims, in_channels, out_channels / options.groups, kernel);
  Summary summary(kDims, in_channels, out_channels, kernel);
  summary.add("stride", options.stride, 1)
      .add("padding", options.padding, 0)
      .add("output_padding", options.output_padding, 0)
      .add("dilation", options.dilation, 1)
      .groups(options.groups);
  this->set_summary(summary.text());
  weight_ = this->add_parameter("weight", empty(shape));
  if (options.bias) bias_ = this->add_parameter("bias", empty({out_channels}));
  init::default_linear_(weight_, bias_);
}

template <class Derived, int kDims>
Tensor ConvLayer<Derived, kDims>::forward(const Tensor& x) const {
  if constexpr (kDims == 1)
    return conv1d(x, weight_, bias_, options_);
  else if constexpr (kDims == 2)
    return conv2d(x, weight_, bias_, options_);
  else
    return conv3d(x, weight_, bias_, options_);
}

template <class Derived, int kDims>
Tensor ConvTransposeLayer<Derived, kDims>::forward(const Tensor& x) const {
  if constexpr (kDims == 1)
    return conv_transpose1d(x, weight_, bias_, options_);
  else if constexpr (kDims == 2)
    return conv_transpose2d(x, weight_, bias_, options_);
  else
    return conv_transpose3d(x, weight_, bias_, options_);
}

#define MZ_CONV_LAYERS(dims)                                                               \
  template class ConvLayer<Conv##dims##d, dims>;                                           \
  template class ConvTransposeLayer<ConvTranspose##dims##d, dims>;                         \
  Conv##dims##d::Conv##dims##d(std::int64_t in_channels, std::int64_t out_channels,        \
                               const WindowSizes& kernel, const ConvLayerOptions& options) \
      : ConvLayer(in_channels, out_channels, kernel, options) {}                           \
  ConvTranspose##dims##d::ConvTranspose##dims##d(                                          \
      std::int64_t in_channels, std::int64_t out_channels, const WindowSizes& kernel,      \
      const ConvTransposeLayerOptions& options)                                            \
      : ConvTransposeLayer(in_channels, out_channels, kernel, options) {}
MZ_CONV_LAYERS(1)
MZ_CONV_LAYERS(2)
MZ_CONV_LAYERS(3)
#undef MZ_CONV_LAYERS

}  // namespace mezzo::nn
