#include "pooling.h"

#include "arguments.h"

namespace mezzo::nn {

namespace {

/** Returns a summary such as "2, stride 1, padding 1". A stride equal to the kernel is omitted. */
template <class Options>
std::string summary_of(const WindowSizes& kernel, const Options& options, int dims) {
  std::string text = detail::sizes_text(kernel, dims);
  const std::string stride = detail::sizes_text(options.stride, dims);
  if (!stride.empty() && stride != text) text += ", stride " + stride;
  if constexpr (requires { options.padding; })
    if (const std::string padding = detail::sizes_text(options.padding, dims); padding != "0")
      text += ", padding " + padding;
  return text;
}

}  // namespace

#define MZ_POOL_LAYER(Layer, Options, function, dims)             \
  Layer::Layer(const WindowSizes& kernel, const Options& options) \
      : kernel_(kernel), options_(options) {                      \
    set_summary(summary_of(kernel, options, dims));               \
  }                                                               \
  Tensor Layer::forward(const Tensor& x) const { return function(x, kernel_, options_); }
MZ_POOL_LAYER(AvgPool1d, AvgPoolOptions, avg_pool1d, 1)
MZ_POOL_LAYER(AvgPool2d, AvgPoolOptions, avg_pool2d, 2)
MZ_POOL_LAYER(AvgPool3d, AvgPoolOptions, avg_pool3d, 3)
MZ_POOL_LAYER(MaxPool1d, MaxPoolOptions, max_pool1d, 1)
MZ_POOL_LAYER(MaxPool2d, MaxPoolOptions, max_pool2d, 2)
MZ_POOL_LAYER(MaxPool3d, MaxPoolOptions, max_pool3d, 3)
#undef MZ_POOL_LAYER

#define MZ_ADAPTIVE_POOL_LAYER(Layer, function, dims)         \
  Layer::Layer(const WindowSizes& output) : output_(output) { \
    set_summary(detail::sizes_text(output, dims));            \
  }                                                           \
  Tensor Layer::forward(const Tensor& x) const { return function(x, output_); }
MZ_ADAPTIVE_POOL_LAYER(AdaptiveAvgPool1d, adaptive_avg_pool1d, 1)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveAvgPool2d, adaptive_avg_pool2d, 2)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveAvgPool3d, adaptive_avg_pool3d, 3)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveMaxPool1d, adaptive_max_pool1d, 1)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveMaxPool2d, adaptive_max_pool2d, 2)
MZ_ADAPTIVE_POOL_LAYER(AdaptiveMaxPool3d, adaptive_max_pool3d, 3)
#undef MZ_ADAPTIVE_POOL_LAYER

#define MZ_LP_POOL_LAYER(Layer, function, dims)                                           \
  Layer::Layer(double norm_type, const WindowSizes& kernel, const LpPoolOptions& options) \
      : norm_type_(norm_type), kernel_(kernel), options_(options) {                       \
    set_summary(str("norm ", norm_type, ", ", summary_of(kernel, options, dims)));        \
  }                                                                                       \
  Tensor Layer::forward(const Tensor& x) const {                                          \
    return function(x, norm_type_, kernel_, options_);                                    \
  }
MZ_LP_POOL_LAYER(LPPool1d, lp_pool1d, 1)
MZ_LP_POOL_LAYER(LPPool2d, lp_pool2d, 2)
MZ_LP_POOL_LAYER(LPPool3d, lp_pool3d, 3)
#undef MZ_LP_POOL_LAYER

#define MZ_UNPOOL_LAYER(Layer, function, dims)                             \
  Layer::Layer(const WindowSizes& kernel, const MaxUnpoolOptions& options) \
      : kernel_(kernel), options_(options) {                               \
    set_summary(summary_of(kernel, options, dims));                        \
  }                                                                        \
  Tensor Layer::forward(const Tensor& x, const Tensor& indices) const {    \
    return function(x, indices, kernel_, options_);                        \
  }
MZ_UNPOOL_LAYER(MaxUnpool1d, max_unpool1d, 1)
MZ_UNPOOL_LAYER(MaxUnpool2d, max_unpool2d, 2)
MZ_UNPOOL_LAYER(MaxUnpool3d, max_unpool3d, 3)
#undef MZ_UNPOOL_LAYER

}  // namespace mezzo::nn
