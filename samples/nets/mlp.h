// Mlp: a multi-layer perceptron of three linear layers.
#pragma once

#include <mezzo.h>

namespace samples {

using namespace mezzo;

/** Layers of sizes 784, width, width and 10 with ReLU between them. Input [N,1,28,28], result
 *  [N,10] (logits). */
struct Mlp : nn::Model<Mlp> {
  explicit Mlp(std::int64_t its_width = 1024) : width(its_width) {}

  std::int64_t width;
  nn::Linear fc1 = add("fc1", nn::Linear{784, width});
  nn::Linear fc2 = add("fc2", nn::Linear{width, width});
  nn::Linear fc3 = add("fc3", nn::Linear{width, 10});
  Tensor forward(const Tensor& x) const { return nn::mlp(x.flatten(1), {fc1, fc2, fc3}); }
};

}  // namespace samples
