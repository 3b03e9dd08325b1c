// A net of 161 weights that several chapters of the tour train, with its samples.
#pragma once

#include <mezzo.h>

namespace samples::tour {

/** Two linear layers with a tanh between them: 8 numbers in, 1 out. */
struct SmallNet : mezzo::nn::Model<SmallNet> {
  mezzo::nn::Linear fc1 = add("fc1", mezzo::nn::Linear{8, 16});
  mezzo::nn::Linear fc2 = add("fc2", mezzo::nn::Linear{16, 1});
  mezzo::Tensor forward(const mezzo::Tensor& x) const { return fc2(mezzo::tanh(fc1(x))); }
};

/** A net and what it learns: the sum of its inputs. */
struct SmallTask {
  SmallNet net;
  mezzo::Tensor x, y;  // f32 [32,8] and [32,1]

  /** Returns the mean squared error of the net, 0-dim. */
  mezzo::Tensor loss() const { return mezzo::mse_loss(net(x), y); }
};

/** Returns the task with its first weights. They are the same at every call: the default generator
 *  is seeded with 1. */
inline SmallTask make_small_task() {
  mezzo::manual_seed(1);
  SmallTask task;
  task.x = mezzo::randn({32, 8});
  task.y = mezzo::sum(task.x, {1}, {.keepdim = true});
  return task;
}

}  // namespace samples::tour
