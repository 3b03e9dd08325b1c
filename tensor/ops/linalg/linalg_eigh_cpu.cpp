// Kernel of the eigenvalues of symmetric matrices. It computes in f64, and rounds to f32 once.
#include "linalg_cpu.h"

#include <Eigen/Eigenvalues>

#include "linalg.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** Returns matrix i with the elements of its triangle `uplo`; the other one is not read later.
 *  Errors: ValueError if they are not finite. */
template <class T> Matrix<double> lower_triangle(const Matrices<T>& x, std::int64_t i, char uplo) {
  Matrix<double> a = x[i].template cast<double>();
  if (uplo == 'U') a.transposeInPlace();
  a.triangularView<Eigen::StrictlyUpper>().setZero();
  require_finite("eigh", x, i, a);
  return a;
}

template <class T> void decompose(const Tensor& x, Outputs out, char uplo) {
  const Matrices<T> a(x), vectors(out[1]);
  T* const values = out[0].data<T>();
  const std::int64_t n = a.rows();
  for_each_matrix(a.count(), 9 * std::pow(static_cast<double>(n), 3), [&](std::int64_t i) {
    const Eigen::SelfAdjointEigenSolver<Matrix<double>> solver(lower_triangle(a, i, uplo));
    if (solver.info() != Eigen::Success)
      refuse_matrix("eigh", a.tensor(), i, "has eigenvalues that the iteration did not find", "");
    Eigen::Map<Column<T>>(values + i * n, n) = solver.eigenvalues().cast<T>();
    vectors[i] = solver.eigenvectors().cast<T>();
  });
}

}  // namespace

void Eigh::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  with_real(in[0].dtype(), [&]<class T> { decompose<T>(in[0], out, attrs.uplo); });
}

}  // namespace mezzo::op
