// Kernels of the Cholesky decomposition and of triangular systems of equations.
#include "linalg_cpu.h"

#include <Eigen/Cholesky>

#include "linalg.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

/** Returns L of matrix i. Errors: ValueError if it is not positive definite or not finite. */
template <class T> Matrix<T> lower_factor(const Matrices<T>& x, std::int64_t i) {
  const Matrix<T> a = x[i].template triangularView<Eigen::Lower>();
  require_finite("cholesky", x, i, a);
  const Eigen::LLT<Matrix<T>> decomposition(a);
  if (decomposition.info() != Eigen::Success)
    refuse_matrix("cholesky", x.tensor(), i, "is not positive definite",
                  "a symmetric matrix with positive eigenvalues");
  return decomposition.matrixL();
}

/** Returns true if an element of the diagonal is zero compared with its row and its column. */
template <class T> bool is_singular(const Matrix<T>& triangle) {
  const auto in_row = triangle.cwiseAbs().rowwise().maxCoeff().array();
  const auto in_column = triangle.cwiseAbs().colwise().maxCoeff().transpose().array();
  const T tolerance = rounding<T>(triangle.rows());
  return (triangle.diagonal().array().abs() <= tolerance * in_row.min(in_column)).any();
}

template <class T, int kTriangle>
void solve_each(const Matrices<T>& a, const Matrices<T>& b, const Matrices<T>& x) {
  const double work = static_cast<double>(a.rows() * a.rows() * b.columns()) / 2;
  for_each_matrix(a.count(), work, [&](std::int64_t i) {
    const Matrix<T> triangle = a[i].template triangularView<kTriangle>();
    require_finite("solve_triangular", a, i, triangle);
    if (is_singular(triangle))
      refuse_matrix("solve_triangular", a.tensor(), i, "has a triangular factor that is singular",
                    "linearly independent columns");
    Matrix<T> solution = b[i];
    triangle.template triangularView<kTriangle>().solveInPlace(solution);
    x[i] = solution;
  });
}

}  // namespace

void Cholesky::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  with_real(in[0].dtype(), [&]<class T> {
    const Matrices<T> a(in[0]), y(out[0]);
    const double work = std::pow(static_cast<double>(a.rows()), 3) / 6;
    for_each_matrix(a.count(), work, [&](std::int64_t i) {
      if (attrs.upper)
        y[i] = lower_factor(a, i).transpose();
      else
        y[i] = lower_factor(a, i);
    });
  });
}

void SolveTriangular::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  if (out[0].numel() == 0) return;
  with_real(in[0].dtype(), [&]<class T> {
    const Matrices<T> a(in[0]), b(in[1]), x(out[0]);
    if (attrs.upper)
      solve_each<T, Eigen::Upper>(a, b, x);
    else
      solve_each<T, Eigen::Lower>(a, b, x);
  });
}

}  // namespace mezzo::op
