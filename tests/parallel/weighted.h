// Models whose gradients are chosen numbers, so that tests know what several processes must get.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainees.h"

namespace trainees {

using Options = nn::DistributedDataParallelOptions;

/** Factors of a model's parameters in a loss; 0: the loss does not depend on the parameter. */
using Factors = std::vector<double>;

/** Parameters p0, p1, ... of ones. */
struct Weighted : nn::Model<Weighted> {
  explicit Weighted(const std::vector<Shape>& shapes) {
    for (const Shape& shape : shapes) add_ones(ones(shape));
  }
  explicit Weighted(const std::vector<Tensor>& values) {
    for (const Tensor& value : values) add_ones(value);
  }

  /** Returns the sum of all elements, times the factors: the gradient of p_i is factor i. */
  Tensor loss(const Factors& factors) const {
    Tensor total = zeros({});
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (factors[i] == 0) continue;
      // Gradients of the first kind are expanded numbers, of the second dense tensors.
      const Tensor term = i % 2 == 0 ? sum(params[i]) * factors[i] : sum(params[i] * factors[i]);
      total = total + term.to(f32);
    }
    return total;
  }

  std::vector<Tensor> params;

 private:
  void add_ones(const Tensor& value) {
    params.push_back(add_parameter("p" + std::to_string(params.size()), value));
  }
};

using Wrapped = nn::DistributedDataParallel<Weighted>;

inline int rank() { return ranks().rank(); }
inline int size() { return ranks().size(); }

/** Returns f(rank) of all ranks added up. */
template <class F> double total_over_ranks(const F& f) {
  double sum = 0;
  for (int r = 0; r < size(); ++r) sum += f(r);
  return sum;
}

template <class F> double mean_over_ranks(const F& f) { return total_over_ranks(f) / size(); }

/** Returns whether all elements are the number. */
inline bool all_are(const Tensor& x, double number) {
  const std::vector<double> values = x.to_vector<double>();
  return std::all_of(values.begin(), values.end(), [&](double v) { return v == number; });
}

/** Returns the gradients that are not the expected number, as text; NaN: no gradient expected. */
inline std::string wrong_gradients(const Weighted& model, const Factors& expected) {
  std::string text;
  for (std::size_t i = 0; i < model.params.size(); ++i) {
    const Tensor grad = model.params[i].grad();
    if (std::isnan(expected[i]) ? !grad.defined() : grad.defined() && all_are(grad, expected[i]))
      continue;
    text += str("p", i, ": ", grad.defined() ? str(grad.to_vector<double>()[0]) : "none",
                " instead of ", expected[i], "; ");
  }
  return text;
}

inline const double kNone = std::nan("");

/** Keeps lines of the log away during its lifetime. */
class QuietLog {
 public:
  QuietLog() : former_(set_log_sink({})) {}
  ~QuietLog() { set_log_sink(former_); }
  QuietLog(const QuietLog&) = delete;
  QuietLog& operator=(const QuietLog&) = delete;

 private:
  LogSink former_;
};

/** Runs f, and returns the text of what it throws; empty if nothing. */
template <class F> std::string thrown_by(const F& f) {
  try {
    f();
  } catch (const std::exception& e) {
    return e.what();
  }
  return {};
}

}  // namespace trainees
