// Small nets of convolutions and norms in either memory format.
#pragma once

#include <mezzo.h>

#include <vector>

#include "../support/values.h"
#include "device.h"

namespace channels_last {

using namespace mezzo;
using testing::kDevice;
using testing::kLast;
using testing::kRows;

/** Returns numbers with few significant bits. */
inline Tensor scattered(const Shape& shape, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < checked_numel(shape, "test"); ++i)
    values.push_back(static_cast<double>(i * 7919 % 23) / 16 - 0.6);
  return tensor(values, shape).to(dtype).to(kDevice);
}

struct PlainConvNet {
  Tensor first, bias, second;
  Tensor operator()(const Tensor& x) const {
    return max_pool2d(conv2d(relu(conv2d(x, first, bias, {.padding = 1})), second), 2);
  }
  std::vector<Tensor> leaves(const Tensor& x) const { return {x, first, bias, second}; }
};

/** Returns a net whose channels fill vectors, so that every layout copy shows in the launches. */
inline PlainConvNet net_in(MemoryFormat format, DType dtype) {
  return {scattered({8, 8, 3, 3}, dtype).to(format).requires_grad_(),
          scattered({8}, dtype).requires_grad_(),
          scattered({8, 8, 3, 3}, dtype).to(format).requires_grad_()};
}

/** A residual block with norms. */
struct NormNet {
  PlainConvNet convolutions;
  Tensor weight;  // of the norms
  bool training;

  Tensor operator()(const Tensor& x) const {
    const Tensor mean = zeros({8}, {.device = kDevice}), var = mean + 1.5;
    const BatchNormOptions options{
        .running_mean = mean, .running_var = var, .weight = weight, .training = training};
    const Tensor first =
        batch_norm_relu(conv2d(x, convolutions.first, {}, {.padding = 1}), options);
    const Tensor second =
        batch_norm(conv2d(first, convolutions.second, {}, {.padding = 1}), options);
    return max_pool2d(batch_norm_relu(relu(second), options, first), 2);
  }
  std::vector<Tensor> leaves(const Tensor& x) const {
    return {x, convolutions.first, convolutions.second, weight};
  }
};

inline NormNet norm_net_in(MemoryFormat format, DType dtype, bool training) {
  return {net_in(format, dtype), scattered({8}, f32).requires_grad_(), training};
}

inline Tensor input_in(MemoryFormat format, DType dtype) {
  return scattered({2, 8, 8, 10}, dtype).to(format).requires_grad_();
}

template <class AnyNet>
std::vector<std::vector<double>> net_results(const AnyNet& net, MemoryFormat format, DType dtype) {
  const Tensor x = input_in(format, dtype), y = net(x);
  const Tensor g = scattered(y.shape(), dtype).to(format);
  std::vector<std::vector<double>> all{y.to_vector<double>()};
  for (const Tensor& gradient : grad(TensorList(y), net.leaves(x), {}, TensorList(g)))
    all.push_back(gradient.to_vector<double>());
  return all;
}

}  // namespace channels_last
