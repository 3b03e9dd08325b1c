#include "eigen_baseline.h"

#include <Eigen/Core>

namespace samples {

void eigen_matmul(const float* a, const float* b, float* c, std::int64_t n) {
  using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Matrix>(c, n, n).noalias() =
      Eigen::Map<const Matrix>(a, n, n) * Eigen::Map<const Matrix>(b, n, n);
}

}  // namespace samples
