// A small training on a device, whose steps can be run one by one or captured: what the tests of graphs compare.
// Sees: mezzo.h.
// Read next: graph.cpp, graph_faults.cpp.
#pragma once

#include <mezzo.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../emulator/counters.h"

namespace captured {

using namespace mezzo;

inline const Device kDevice{DeviceKind::cuda, 0};

/** What a call costs. */
template <class F> emulator::Counters cost_of(F&& call) {
  const emulator::Counters before = emulator::counters();
  call();
  const emulator::Counters after = emulator::counters();
  return {after.launches - before.launches, after.copies - before.copies,
          after.allocations - before.allocations, after.synchronisations - before.synchronisations,
          after.graph_launches - before.graph_launches};
}

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

/** The steps of a training: run one by one, or captured. */
inline gpu::CapturedStep::Function as_steps(gpu::CapturedStep::Function step, bool capture) {
  if (!capture) return step;
  const auto captured =
      std::make_shared<gpu::CapturedStep>(std::move(step), gpu::CapturedStepOptions{kDevice});
  return [captured](const std::vector<Tensor>& in) { return (*captured)(in); };
}

}  // namespace captured
