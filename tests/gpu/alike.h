// Helpers that compare values and gradients of a function on the device and on the CPU.
#pragma once

#include <mezzo.h>

#include <limits>

#include "../support/catch.h"
#include "../support/device.h"
#include "device.h"
#include "need_device.h"

namespace alike {

using namespace mezzo;
using testing::kDevice;

/** Returns the largest difference, relative to 1 + |expected|. */
inline double distance(const Tensor& got, const Tensor& expected) {
  if (!(got.shape() == expected.shape()) || got.dtype() != expected.dtype())
    return std::numeric_limits<double>::infinity();
  const std::vector<double> a = got.to_vector<double>(), b = expected.to_vector<double>();
  double greatest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double apart = std::abs(a[i] - b[i]) / (1 + std::abs(b[i]));
    greatest = apart > greatest || apart != apart ? apart : greatest;
  }
  return greatest;
}

/** Returns what f computes on a device, and its gradients for floating operands. */
template <class F>
std::vector<Tensor> results_on(Device device, const std::vector<Tensor>& operands, const F& f) {
  std::vector<Tensor> x, wanted;
  for (const Tensor& operand : operands) {
    x.push_back(operand.detach().to(device));
    if (is_floating(operand.dtype())) wanted.push_back(x.back().requires_grad_());
  }
  manual_seed(5);
  const Tensor y = f(x);
  std::vector<double> values;
  for (std::int64_t i = 0; i < y.numel(); ++i)
    values.push_back(static_cast<double>(i % 7) * 0.25 - 0.5);
  const Tensor seed = tensor(values, y.shape(), {.dtype = y.dtype(), .device = device});
  std::vector<Tensor> all =
      grad(std::span(&y, 1), wanted, {.allow_unused = true}, std::span(&seed, 1));
  all.push_back(y);
  return all;
}

/** The sides sum in different orders, so the tolerance is one of f32. */
template <class F>
void check_alike(const std::vector<Tensor>& operands, const F& f, double tolerance = 2e-4) {
  const std::vector<Tensor> there = results_on(kDevice, operands, f),
                            here = results_on(cpu, operands, f);
  for (std::size_t i = 0; i < here.size(); ++i) {
    INFO("result " << i);
    CHECK(distance(there[i].to(cpu), here[i]) < tolerance);
  }
}

}  // namespace alike
