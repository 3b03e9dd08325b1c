#include "init.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "../tensor/core/dispatch.h"
#include "../tensor/math/erf.h"
#include "../tensor/ops/random/random.h"
#include "../tensor/random/draw.h"
#include "../tensor/text/text.h"

namespace mezzo::nn::init {

double gain(Nonlinearity nonlinearity, double slope) {
  switch (nonlinearity) {
    case Nonlinearity::tanh: return 5.0 / 3.0;
    case Nonlinearity::relu: return std::sqrt(2.0);
    case Nonlinearity::leaky_relu: return std::sqrt(2.0 / (1.0 + slope * slope));
    case Nonlinearity::selu: return 0.75;
    case Nonlinearity::linear:
    case Nonlinearity::sigmoid: break;
  }
  return 1.0;
}

Fans fans_of(const Tensor& weight) {
  if (weight.dim() < 2)
    fail<ShapeError>("init", {.what = "fan-in and fan-out need a weight of two or more dimensions",
                              .got = str(weight),
                              .expected = "[out, in, ...]"});
  std::int64_t window = 1;
  for (int i = 2; i < weight.dim(); ++i) window *= weight.shape()[i];
  return {weight.shape()[1] * window, weight.shape()[0] * window};
}

const Tensor& constant_(const Tensor& x, double value) {
  const NoGrad no_grad;
  return x.fill_(value);
}
const Tensor& zeros_(const Tensor& x) { return constant_(x, 0); }
const Tensor& ones_(const Tensor& x) { return constant_(x, 1); }

const Tensor& uniform_(const Tensor& x, double low, double high) {
  const NoGrad no_grad;
  return mezzo::uniform_(x, low, high);
}

const Tensor& normal_(const Tensor& x, double mean, double std) {
  const NoGrad no_grad;
  return mezzo::normal_(x, mean, std);
}

const Tensor& trunc_normal_(const Tensor& x, const TruncNormalOptions& options) {
  const double mean = options.mean, std = options.std, low = options.low, high = options.high;
  if (!(std > 0) || !(low < high))
    fail<ValueError>("trunc_normal_", {.what = "the distribution is empty",
                                       .got = str("std ", std, ", low ", low, ", high ", high),
                                       .expected = "std > 0 and low < high"});
  const NoGradNoCasts plain_ops;
  // Inverse transform sampling: uniform values between the values of the distribution function at
  // `low` and at `high`.
  const double from = std::erf((low - mean) / std / std::sqrt(2.0));
  const double to = std::erf((high - mean) / std / std::sqrt(2.0));
  const Draw draw;
  const Tensor values = mezzo::uniform_(empty_tensor(x.shape(), DType::f64, cpu), from, to);
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    double& v = values.data<double>()[i];
    v = std::clamp(mean + std * std::sqrt(2.0) * math::erfinv(v), low, high);
  }
  return x.copy_(values);
}

namespace {

const Tensor& symmetric_uniform(const Tensor& x, double bound) {
  return init::uniform_(x, -bound, bound);
}

double fan(const Tensor& weight, Fan side) {
  const Fans fans = fans_of(weight);
  return static_cast<double>(std::max<std::int64_t>(1, side == Fan::in ? fans.in : fans.out));
}

double xavier_std(const Tensor& weight, double gain) {
  const Fans fans = fans_of(weight);
  return gain * std::sqrt(2.0 / static_cast<double>(std::max<std::int64_t>(1, fans.in + fans.out)));
}

double kaiming_std(const Tensor& weight, const KaimingOptions& options) {
  return gain(options.nonlinearity, options.slope) / std::sqrt(fan(weight, options.fan));
}

}  // namespace

const Tensor& xavier_uniform_(const Tensor& weight, double gain) {
  return symmetric_uniform(weight, std::sqrt(3.0) * xavier_std(weight, gain));
}
const Tensor& xavier_normal_(const Tensor& weight, double gain) {
  return init::normal_(weight, 0, xavier_std(weight, gain));
}
const Tensor& kaiming_uniform_(const Tensor& weight, const KaimingOptions& options) {
  return symmetric_uniform(weight, std::sqrt(3.0) * kaiming_std(weight, options));
}
const Tensor& kaiming_normal_(const Tensor& weight, const KaimingOptions& options) {
  return init::normal_(weight, 0, kaiming_std(weight, options));
}

namespace {

using Vector = std::vector<double>;

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

/** Makes the vectors orthonormal in order (Gram-Schmidt). The second pass removes the rounding
 *  errors of the first. */
void orthonormalise(std::vector<Vector>& vectors) {
  for (std::size_t i = 0; i < vectors.size(); ++i) {
    Vector& v = vectors[i];
    for (int pass = 0; pass < 2; ++pass)
      for (std::size_t j = 0; j < i; ++j) {
        const double along = dot(v, vectors[j]);
        for (std::size_t k = 0; k < v.size(); ++k) v[k] -= along * vectors[j][k];
      }
    const double length = std::sqrt(dot(v, v));
    for (double& element : v) element /= length;
  }
}

}  // namespace

const Tensor& orthogonal_(const Tensor& weight, double gain) {
  fans_of(weight);
  if (weight.numel() == 0) return weight;
  const NoGradNoCasts plain_ops;
  const std::int64_t rows = weight.shape()[0], columns = weight.numel() / rows;
  const Tensor matrix =
      empty_tensor({std::min(rows, columns), std::max(rows, columns)}, DType::f64, cpu);
  const Draw draw;
  init::normal_(matrix);
  std::vector<Vector> vectors;
  for (const Tensor& row : matrix.unbind()) vectors.push_back(row.to_vector<double>());
  orthonormalise(vectors);
  for (std::int64_t i = 0; i < matrix.size(0); ++i)
    for (std::int64_t j = 0; j < matrix.size(1); ++j)
      matrix.data<double>()[i * matrix.size(1) + j] =
          gain * vectors[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
  return weight.copy_((rows <= columns ? matrix : matrix.t()).reshape(weight.shape()));
}

void default_linear_(const Tensor& weight, const Tensor& bias) {
  // Equals kaiming_uniform_ with slope sqrt(5).
  const double bound = 1.0 / std::sqrt(fan(weight, Fan::in));
  symmetric_uniform(weight, bound);
  if (bias.defined()) symmetric_uniform(bias, bound);
}

}  // namespace mezzo::nn::init
