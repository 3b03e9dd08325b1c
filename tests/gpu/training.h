// A small training on a device, whose steps can be run one by one or captured: what the tests of graphs compare.
// Sees: mezzo.h, need_device.h.
// Read next: graph.cpp, graph_faults.cpp.
#pragma once

#include <mezzo.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "need_device.h"

namespace captured {

using namespace mezzo;

inline const Device kDevice{DeviceKind::cuda, 0};

inline void add_all(std::vector<double>& numbers, const Tensor& x) {
  for (const double v : x.to(cpu).to_vector<double>()) numbers.push_back(v);
}

inline void add_all(std::vector<double>& numbers, const optim::StateDict& state) {
  for (const auto& [name, value] : state.scalars) numbers.push_back(value);
  for (const auto& [name, x] : state.tensors) add_all(numbers, x);
}

/** NaNs are equal here. */
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

/** A batch; one that overflows has an infinity in it. */
inline std::vector<Tensor> batch(std::int64_t n, bool overflows) {
  const Tensor x = rand({n, 6});
  if (overflows) x.select(0, 0).select(0, 2).fill_(1e30);
  std::vector<double> classes;
  for (std::int64_t i = 0; i < n; ++i) classes.push_back(static_cast<double>(i % 4));
  return {x.to(kDevice), tensor(classes, {n}, {.dtype = i64}).to(kDevice)};
}

/** A training step of a net under its session, which waits for nothing: it takes images and classes and gives the loss. */
template <class AnyNet>
gpu::CapturedStep::Function deferred_step(const AnyNet& net, optim::Optimizer& optimizer) {
  return [net, &optimizer](const std::vector<Tensor>& in) -> std::vector<Tensor> {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(in[0]), in[1]);
    amp::scale_loss(loss, optimizer, [](const Tensor& scaled) { scaled.backward(); });
    amp::step_deferred(optimizer);
    return {loss};
  };
}

/** The steps of a training: run one by one, or captured. */
inline gpu::CapturedStep::Function as_steps(gpu::CapturedStep::Function step, bool capture) {
  if (!capture) return step;
  const auto captured =
      std::make_shared<gpu::CapturedStep>(std::move(step), gpu::CapturedStepOptions{kDevice});
  return [captured](const std::vector<Tensor>& in) { return (*captured)(in); };
}

}  // namespace captured
