// Reference implementations of the optimizers' update equations, one number at a time.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace reference {

/** One parameter under SGD, in the arithmetic of V. */
template <class V> struct Sgd {
  V lr, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false, decay_last = false;
  std::vector<V> buffer = {};

  void step(std::vector<V>& p, const std::vector<V>& grad) {
    const bool first = buffer.empty();
    if (first) buffer.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      V g = grad[i];
      if (weight_decay != 0 && !decay_last) g = g + weight_decay * p[i];
      if (momentum != 0) {
        buffer[i] = first ? g : momentum * buffer[i] + (1 - dampening) * g;
        g = nesterov ? g + momentum * buffer[i] : buffer[i];
      }
      if (weight_decay != 0 && decay_last) g = g + weight_decay * p[i];
      p[i] = p[i] - lr * g;
    }
  }
};

/** One parameter under Adam (decoupled: AdamW). The factors are rounded to V once. */
template <class V> struct Adam {
  double lr, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false, corrected = true;
  std::int64_t t = 0;
  std::vector<V> m = {}, v = {};

  void step(std::vector<V>& p, const std::vector<V>& grad) {
    m.resize(p.size());
    v.resize(p.size());
    ++t;
    const V c1 = corrected ? static_cast<V>(1 / (1 - std::pow(beta1, static_cast<double>(t)))) : 1;
    const V c2 = corrected ? static_cast<V>(1 / (1 - std::pow(beta2, static_cast<double>(t)))) : 1;
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

template <class V> struct Adagrad {
  V lr, eps = static_cast<V>(1e-10), weight_decay = 0;
  bool decoupled = false;
  std::vector<V> sum = {};

  void step(std::vector<V>& p, const std::vector<V>& grad) {
    sum.resize(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      V g = grad[i];
      if (weight_decay != 0 && !decoupled) g = g + weight_decay * p[i];
      sum[i] = sum[i] + g * g;
      V u = g / (std::sqrt(sum[i]) + eps);
      if (weight_decay != 0 && decoupled) u = u + weight_decay * p[i];
      p[i] = p[i] - lr * u;
    }
  }
};

// The optimizers below use norms of whole tensors. They compute in f64, for any number of
// parameters at once.
using Tensors = std::vector<std::vector<double>>;

inline double l2(const std::vector<double>& x) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  return std::sqrt(sum);
}

inline double largest(const std::vector<double>& x) {
  double result = 0;
  for (const double v : x) result = std::max(result, std::fabs(v));
  return result;
}

struct Lamb {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-6, weight_decay = 0.01, max_grad_norm = 1;
  bool corrected = true, decoupled = true, averaging = true, nvlamb = false;
  double t = 0;
  Tensors m = {}, v = {};

  void step(Tensors& params, const Tensors& grads) {
    m.resize(params.size());
    v.resize(params.size());
    ++t;
    double squares = 0;
    for (const auto& g : grads) squares += l2(g) * l2(g);
    const double norm = std::sqrt(squares);
    const double clip = max_grad_norm > 0 && norm > max_grad_norm ? norm / max_grad_norm : 1;
    for (std::size_t k = 0; k < params.size(); ++k) one(params[k], grads[k], m[k], v[k], clip);
  }

 private:
  void one(std::vector<double>& p, const std::vector<double>& grad, std::vector<double>& mean,
           std::vector<double>& square, double clip) const {
    mean.resize(p.size());
    square.resize(p.size());
    const double c1 = corrected ? 1 - std::pow(beta1, t) : 1,
                 c2 = corrected ? 1 - std::pow(beta2, t) : 1;
    std::vector<double> u(p.size());
    for (std::size_t i = 0; i < p.size(); ++i) {
      double s = grad[i] / clip;
      if (!decoupled) s += weight_decay * p[i];
      mean[i] = beta1 * mean[i] + (averaging ? 1 - beta1 : 1) * s;
      square[i] = beta2 * square[i] + (1 - beta2) * s * s;
      u[i] = (mean[i] / c1) / (std::sqrt(square[i] / c2) + eps);
      if (decoupled) u[i] += weight_decay * p[i];
    }
    const bool adapts = (nvlamb || weight_decay != 0) && l2(p) != 0 && l2(u) != 0;
    const double rate = adapts ? lr * l2(p) / l2(u) : lr;
    for (std::size_t i = 0; i < p.size(); ++i) p[i] -= rate * u[i];
  }
};

struct NovoGrad {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool corrected = true, inside = false, averaging = true, max_norm = false, init_zero = false;
  double t = 0;
  Tensors m = {};
  std::vector<double> v = {};

  void step(Tensors& params, const Tensors& grads) {
    ++t;
    m.resize(params.size());
    for (std::size_t k = 0; k < params.size(); ++k) {
      const double n = max_norm ? largest(grads[k]) : l2(grads[k]);
      if (v.size() <= k) v.push_back(init_zero ? 0 : n);
      v[k] = max_norm ? beta2 * v[k] + (1 - beta2) * n
                      : std::sqrt(beta2 * v[k] * v[k] + (1 - beta2) * n * n);
      one(params[k], grads[k], m[k], v[k]);
    }
  }

 private:
  void one(std::vector<double>& p, const std::vector<double>& grad, std::vector<double>& mean,
           double norm) const {
    mean.resize(p.size());
    const double c1 = corrected ? 1 - std::pow(beta1, t) : 1;
    const double d = norm / (corrected ? std::sqrt(1 - std::pow(beta2, t)) : 1) + eps;
    const double b3 = averaging ? 1 - beta1 : 1;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (inside) {
        mean[i] = beta1 * mean[i] + b3 * (grad[i] / d + weight_decay * p[i]);
        p[i] -= lr * mean[i] / c1;
      } else {
        mean[i] = beta1 * mean[i] + b3 * grad[i];
        p[i] -= lr * ((mean[i] / c1) / d + weight_decay * p[i]);
      }
    }
  }
};

/** Returns the gradient as transformed by LARC. */
inline std::vector<double> larc(const std::vector<double>& p, const std::vector<double>& grad,
                                double lr, double weight_decay, double trust, bool clip,
                                double eps = 1e-8) {
  if (l2(p) == 0 || l2(grad) == 0) return grad;
  double rate = trust * l2(p) / (l2(grad) + weight_decay * l2(p) + eps);
  if (clip) rate = std::min(rate / lr, 1.0);
  std::vector<double> out(p.size());
  for (std::size_t i = 0; i < p.size(); ++i) out[i] = (grad[i] + weight_decay * p[i]) * rate;
  return out;
}

}  // namespace reference
