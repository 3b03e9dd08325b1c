// Parameters and gradients for tests of optimizers, and the comparison of an optimizer with a
// reference.
#pragma once

#include <mezzo.h>

#include <random>
#include <vector>

#include "../support/catch.h"

/** Returns deterministic numbers in about -2..2. */
inline std::vector<double> numbers(std::size_t n, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<double> out(n);
  for (double& x : out) x = static_cast<float>(static_cast<double>(generator() % 4001) / 1000 - 2);
  return out;
}

template <class V> std::vector<V> as(const std::vector<double>& values) {
  return std::vector<V>(values.begin(), values.end());
}

/** Trains one parameter with optimizer and reference and compares them. The gradient of a step is p
 *  plus noise, rounded to the dtype. */
template <class V, class Optimizer, class Reference>
void compare(Optimizer& optimizer, mezzo::Tensor p, Reference reference, int steps) {
  std::vector<V> expected = as<V>(p.template to_vector<double>());
  for (int t = 0; t < steps; ++t) {
    const std::vector<double> grad = numbers(expected.size(), 100 + static_cast<unsigned>(t));
    p.set_grad(mezzo::tensor(grad, p.shape(), {.dtype = p.dtype()}));
    REQUIRE(optimizer.step() == mezzo::optim::StepResult::stepped);
    reference.step(expected, as<V>(grad));
    REQUIRE(p.template to_vector<V>() == expected);
  }
}

inline mezzo::Tensor parameter(std::int64_t n, mezzo::DType dtype = mezzo::f32, unsigned seed = 1) {
  return mezzo::tensor(numbers(static_cast<std::size_t>(n), seed), {n}, {.dtype = dtype})
      .requires_grad_();
}

inline std::vector<double> bits(const mezzo::Tensor& x) { return x.to_vector<double>(); }
