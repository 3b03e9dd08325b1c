// Convolutions of integers, and their results on a device.
#pragma once

#include <mezzo.h>

#include <vector>

#include "device.h"

namespace convolution {

using namespace mezzo;
using testing::kDevice;

/** Returns small integers, whose sums of products are exact in every dtype. */
inline Tensor whole(const Shape& shape, DType dtype = f32) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i)
    values.push_back(static_cast<double>(i * 7919 % 5) - 2);
  return tensor(values, shape).to(dtype);
}

struct ConvCase {
  Shape x, w;
  ConvOptions options;
};

inline const std::vector<ConvCase> kConvCases{
    {{2, 3, 9, 7}, {4, 3, 3, 2}, {}},
    {{2, 4, 9, 8}, {6, 2, 3, 3}, {.stride = 2, .padding = 1, .groups = 2}},
    {{1, 2, 12, 11}, {3, 2, 3, 3}, {.padding = {2, 0}, .dilation = 2}},
    {{3, 4, 5, 5}, {4, 1, 5, 5}, {.padding = 2, .groups = 4}},
};

/** Returns result and gradients of a convolution on a device, with and without a bias. */
inline std::vector<std::vector<double>> conv_results(
    const ConvCase& c, DType dtype, Device device, MemoryFormat format = MemoryFormat::contiguous) {
  const auto leaf = [&](const Shape& shape) {
    const Tensor x = whole(shape, dtype).to(device);
    return (shape.rank() > 3 ? x.to(format) : x).requires_grad_();
  };
  const auto convolve = [&](const Tensor& x, const Tensor& w, const Tensor& b) {
    return c.w.rank() == 5 ? conv3d(x, w, b, c.options) : conv2d(x, w, b, c.options);
  };
  const Tensor x = leaf(c.x), w = leaf(c.w), b = leaf({c.w[0]});
  std::vector<std::vector<double>> all;
  for (const Tensor& y : {convolve(x, w, b), convolve(x, w, {})}) {
    all.push_back(y.to_vector<double>());
    const Tensor g = whole(y.shape(), dtype).to(device);
    std::vector<Tensor> inputs{x, w};
    if (all.size() == 1) inputs.push_back(b);
    for (const Tensor& gradient : grad(TensorList(y), inputs, {}, TensorList(g)))
      all.push_back(gradient.to_vector<double>());
  }
  return all;
}

}  // namespace convolution
