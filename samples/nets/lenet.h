// LeNet: convolutions, batch norm and pooling, then linear layers.
#pragma once

#include <mezzo.h>

namespace samples {

using namespace mezzo;

/** Two 5x5 convolutions with batch norm and pooling, then two linear layers. Input [N,1,28,28],
 *  result [N,10] (logits). The convolutions have no bias, because batch norm would remove it. */
struct LeNet : nn::Model<LeNet> {
  explicit LeNet(std::int64_t its_width = 32) : width(its_width) {}

  std::int64_t width;  // channels of the first convolution
  nn::Conv2d conv1 = add("conv1", nn::Conv2d{1, width, 5, {.padding = 2, .bias = false}});
  nn::BatchNorm2d bn1 = add("bn1", nn::BatchNorm2d{width});
  nn::Conv2d conv2 = add("conv2", nn::Conv2d{width, 2 * width, 5, {.padding = 2, .bias = false}});
  nn::BatchNorm2d bn2 = add("bn2", nn::BatchNorm2d{2 * width});
  nn::Linear fc1 = add("fc1", nn::Linear{2 * width * 7 * 7, 16 * width});
  nn::Linear fc2 = add("fc2", nn::Linear{16 * width, 10});
  Tensor forward(const Tensor& x) const {
    const Tensor a = max_pool2d(nn::batch_norm_relu(bn1, conv1(x)), 2);
    const Tensor b = max_pool2d(nn::batch_norm_relu(bn2, conv2(a)), 2);
    return nn::mlp(b.flatten(1), {fc1, fc2});
  }
};

}  // namespace samples
