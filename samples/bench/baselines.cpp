#include "baselines.h"

#include <Eigen/Core>
#include <cmath>

namespace samples {

void eigen_matmul(const float* a, const float* b, float* c, std::int64_t n) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix>(c, n, n).noalias() =
      Eigen::Map<const Matrix>(a, n, n) * Eigen::Map<const Matrix>(b, n, n);
}

void bare_adam(std::int64_t n, float* __restrict p, const float* __restrict g, float* __restrict m,
               float* __restrict v, std::int64_t step) {
  const float c1 = static_cast<float>(1 / (1 - std::pow(0.9, static_cast<double>(step))));
  const float c2 = static_cast<float>(1 / (1 - std::pow(0.999, static_cast<double>(step))));
  for (std::int64_t i = 0; i < n; ++i) {
    m[i] = 0.9f * m[i] + 0.1f * g[i];
    v[i] = 0.999f * v[i] + 0.001f * g[i] * g[i];
    p[i] = p[i] - 1e-3f * (m[i] * c1) / (std::sqrt(v[i] * c2) + 1e-8f);
  }
}

}  // namespace samples
