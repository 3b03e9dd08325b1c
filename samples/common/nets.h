// The two nets of the digit samples.
// Sees: mezzo.h.
// Read next: training.h.
#pragma once

#include <mezzo.h>

namespace samples {

/** 784-1024-1024-10 with ReLU. Input [N,1,28,28], result [N,10] (logits). */
struct Mlp : mezzo::nn::Model<Mlp> {
  mezzo::nn::Linear fc1 = add("fc1", mezzo::nn::Linear{784, 1024});
  mezzo::nn::Linear fc2 = add("fc2", mezzo::nn::Linear{1024, 1024});
  mezzo::nn::Linear fc3 = add("fc3", mezzo::nn::Linear{1024, 10});
  mezzo::Tensor forward(const mezzo::Tensor& x) const { return fc3(relu(fc2(relu(fc1(x.flatten(1)))))); }
};

/** Two 5x5 convolutions with batch norm and pooling, then two linear layers. Input [N,1,28,28], result [N,10] (logits). */
struct LeNet : mezzo::nn::Model<LeNet> {
  mezzo::nn::Conv2d conv1 = add("conv1", mezzo::nn::Conv2d{1, 32, 5, {.padding = 2}});
  mezzo::nn::BatchNorm2d bn1 = add("bn1", mezzo::nn::BatchNorm2d{32});
  mezzo::nn::Conv2d conv2 = add("conv2", mezzo::nn::Conv2d{32, 64, 5, {.padding = 2}});
  mezzo::nn::BatchNorm2d bn2 = add("bn2", mezzo::nn::BatchNorm2d{64});
  mezzo::nn::Linear fc1 = add("fc1", mezzo::nn::Linear{64 * 7 * 7, 512});
  mezzo::nn::Linear fc2 = add("fc2", mezzo::nn::Linear{512, 10});
  mezzo::Tensor forward(const mezzo::Tensor& x) const {
    const mezzo::Tensor a = max_pool2d(relu(bn1(conv1(x))), 2);
    const mezzo::Tensor b = max_pool2d(relu(bn2(conv2(a))), 2);
    return fc2(relu(fc1(b.flatten(1))));
  }
};

}  // namespace samples
