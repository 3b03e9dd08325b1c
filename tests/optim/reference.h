// The update equations of AMP.md 12.2 once more, one number at a time: what the optimizers are compared with.
// Sees: the standard library only.
// Read next: updates.cpp.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

namespace reference {

/** One parameter under SGD, in the arithmetic of V. */
template <class V> struct Sgd {
  V lr, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  std::vector<V> buffer = {};

  void step(std::vector<V>& p, const std::vector<V>& grad) {
    const bool first = buffer.empty();
    if (first) buffer.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      V g = grad[i];
      if (weight_decay != 0) g = g + weight_decay * p[i];
      if (momentum != 0) {
        buffer[i] = first ? g : momentum * buffer[i] + (1 - dampening) * g;
        g = nesterov ? g + momentum * buffer[i] : buffer[i];
      }
      p[i] = p[i] - lr * g;
    }
  }
};

/** One parameter under Adam (decoupled: AdamW). The factors are rounded to V once, as they enter. */
template <class V> struct Adam {
  double lr, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;
  std::int64_t t = 0;
  std::vector<V> m = {}, v = {};

  void step(std::vector<V>& p, const std::vector<V>& grad) {
    m.resize(p.size());
    v.resize(p.size());
    ++t;
    const V c1 = static_cast<V>(1 / (1 - std::pow(beta1, static_cast<double>(t))));
    const V c2 = static_cast<V>(1 / (1 - std::pow(beta2, static_cast<double>(t))));
    const V keep1 = static_cast<V>(beta1), fresh1 = static_cast<V>(1 - beta1);
    const V keep2 = static_cast<V>(beta2), fresh2 = static_cast<V>(1 - beta2);
    const V decay = static_cast<V>(weight_decay);
    for (std::size_t i = 0; i < p.size(); ++i) {
      V g = grad[i];
      if (!decoupled && weight_decay != 0) g = g + decay * p[i];
      m[i] = keep1 * m[i] + fresh1 * g;
      v[i] = keep2 * v[i] + fresh2 * g * g;
      V u = (m[i] * c1) / (std::sqrt(v[i] * c2) + static_cast<V>(eps));
      if (decoupled && weight_decay != 0) u = u + decay * p[i];
      p[i] = p[i] - static_cast<V>(lr) * u;
    }
  }
};

}  // namespace reference
