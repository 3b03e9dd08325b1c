// A small training on a device, with eager or captured steps, for the tests of graphs.
#pragma once

#include <mezzo.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "device.h"
#include "need_device.h"

namespace captured {

using namespace mezzo;
using testing::kDevice;

inline void add_all(std::vector<double>& numbers, const Tensor& x) {
  for (const double v : x.to(cpu).to_vector<double>()) numbers.push_back(v);
}

inline void add_all(std::vector<double>& numbers, const optim::StateDict& state) {
  for (const auto& [name, value] : state.scalars) numbers.push_back(value);
  for (const auto& [name, x] : state.tensors) add_all(numbers, x);
}

/** Returns whether the numbers are equal; NaNs are equal here. */
inline bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i] && (a[i] == a[i] || b[i] == b[i])) return false;
  return true;
}

struct Net : nn::Model<Net> {
  nn::Linear first = add("first", nn::Linear{6, 20});
  nn::Linear second = add("second", nn::Linear{20, 12});
  nn::Linear third = add("third", nn::Linear{12, 4});
  double drops = 0;
  Tensor forward(const Tensor& x) const {
    const Tensor h = dropout(relu(first(x)), {.p = drops, .training = drops > 0});
    return third(relu(second(h)));
  }
};

/** Returns a batch; one that overflows contains an infinity. */
inline std::vector<Tensor> batch(std::int64_t n, bool overflows) {
  const Tensor x = rand({n, 6});
  if (overflows) x.select(0, 0).select(0, 2).fill_(1e30);
  std::vector<double> classes;
  for (std::int64_t i = 0; i < n; ++i) classes.push_back(static_cast<double>(i % 4));
  return {x.to(kDevice), tensor(classes, {n}, {.dtype = i64}).to(kDevice)};
}

/** Returns a training step of a net under its session that does not synchronise. It takes images
 *  and classes and returns the loss. */
template <class AnyNet>
gpu::CapturedStep::Function training_step(const AnyNet& net, optim::Optimizer& optimizer) {
  return [net, &optimizer](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(in[0]), in[1]);
    amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
    optimizer.step();
    return {loss};
  };
}

/** Returns the steps of a training, eager or captured. */
inline gpu::CapturedStep::Function as_steps(gpu::CapturedStep::Function step, bool capture) {
  if (!capture) return step;
  const auto captured =
      std::make_shared<gpu::CapturedStep>(std::move(step), gpu::CapturedStepOptions{kDevice});
  return [captured](const std::vector<Tensor>& in) { return (*captured)(in); };
}

}  // namespace captured
