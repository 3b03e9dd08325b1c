// Kernels by LU decomposition with partial pivoting: solutions, inverses, determinants, cofactors.
#include "linalg_cpu.h"

#include <Eigen/LU>

#include "linalg.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

template <class T> using Lu = Eigen::PartialPivLU<Matrix<T>>;

double cube(std::int64_t n) { return std::pow(static_cast<double>(n), 3); }

/** Returns true if a pivot is zero to rounding. It is the difference of terms about as large as the
 *  elements of its row and its column, so it is compared with both: a matrix with rows or columns
 *  of different scales is not singular. */
template <class T> bool is_singular(const Matrix<T>& a, const Lu<T>& lu) {
  const Column<T> in_row = lu.permutationP() * a.cwiseAbs().rowwise().maxCoeff();
  const Column<T> in_column = a.cwiseAbs().colwise().maxCoeff().transpose();
  const auto terms = in_row.array().min(in_column.array());
  return (lu.matrixLU().diagonal().array().abs() <= rounding<T>(a.rows()) * terms).any();
}

/** Returns the decomposition of matrix i. Errors: ValueError if it is singular or not finite. */
template <class T> Lu<T> invertible(const char* op, const Matrices<T>& x, std::int64_t i) {
  const Matrix<T> a = finite_matrix<T>(op, x, i);
  Lu<T> lu(a);
  if (is_singular(a, lu))
    refuse_matrix(op, x.tensor(), i, "is singular to rounding", "an invertible matrix");
  return lu;
}

/** The sign of the determinant; 0 if a pivot is 0. */
template <class T> T sign_of(const Lu<T>& lu) {
  return static_cast<T>(lu.permutationP().determinant()) *
         lu.matrixLU().diagonal().array().sign().prod();
}

/** Returns the matrix that all of an expanded batch share as the only one, or x itself. */
Tensor without_repeats(const Tensor& x) {
  const int batch = x.dim() - 2;
  for (int d = 0; d < batch; ++d)
    if (x.shape()[d] != 1 && x.strides()[d] != 0) return x;
  return alias(x, {x.size(-2), x.size(-1)}, {x.strides()[batch], x.strides()[batch + 1]},
               x.impl()->offset);
}

/** Writes a^-1 b for each matrix b of a batch. A single a is decomposed once. */
template <class T>
void solve_each(const Matrices<T>& a, const Matrices<T>& b, const Matrices<T>& x) {
  const auto columns = static_cast<double>(b.columns() * a.rows() * a.rows());
  if (a.count() == 1) {
    const Lu<T> lu = invertible("solve", a, 0);
    for_each_matrix(b.count(), columns, [&](std::int64_t i) { x[i] = lu.solve(b[i]); });
    return;
  }
  for_each_matrix(a.count(), cube(a.rows()) / 3 + columns,
                  [&](std::int64_t i) { x[i] = invertible("solve", a, i).solve(b[i]); });
}

/** Calls f(decomposition, i) for each matrix. Those of size 0 by 0 must not occur. */
template <class T, class F> void decompose_each(const char* op, const Tensor& x, F&& f) {
  const Matrices<T> a(x);
  for_each_matrix(a.count(), cube(a.rows()) / 3,
                  [&](std::int64_t i) { f(Lu<T>(finite_matrix<T>(op, a, i)), i); });
}

/** Writes the value of each matrix of size 0 by 0. Returns false if they have another size. */
template <class T> bool fill_for_empty(const Tensor& x, Tensor& out, T value) {
  if (x.size(-1) != 0) return false;
  std::fill_n(static_cast<T*>(out.raw_data()), out.numel(), value);
  return true;
}

/** Returns the cofactors: det(a) a^-T. Pivots of 0 are replaced by numbers of the size of rounding
 *  errors: cofactors are polynomials, so they change by no more than that. */
template <class T> Matrix<T> cofactors(const Matrix<T>& a) {
  const std::int64_t n = a.rows();
  const T largest = a.cwiseAbs().maxCoeff();
  if (largest == 0) return n == 1 ? Matrix<T>::Ones(1, 1) : Matrix<T>::Zero(n, n);
  const Lu<T> lu(a);
  Matrix<T> factors = lu.matrixLU();
  for (std::int64_t k = 0; k < n; ++k)
    if (factors(k, k) == 0) factors(k, k) = largest * std::numeric_limits<T>::epsilon();
  Matrix<T> inverse = lu.permutationP() * Matrix<T>::Identity(n, n);
  factors.template triangularView<Eigen::UnitLower>().solveInPlace(inverse);
  factors.template triangularView<Eigen::Upper>().solveInPlace(inverse);
  const T det = static_cast<T>(lu.permutationP().determinant()) * factors.diagonal().prod();
  return det * inverse.transpose();
}

template <class T> void write_slogdet(const Tensor& x, Outputs out) {
  T* const signs = out[0].data<T>();
  T* const logs = out[1].data<T>();
  decompose_each<T>("slogdet", x, [&](const Lu<T>& lu, std::int64_t i) {
    signs[i] = sign_of(lu);
    logs[i] = lu.matrixLU().diagonal().array().abs().log().sum();
  });
}

}  // namespace

void SolveMatrices::cpu(Inputs in, Outputs out, const Attrs&) {
  if (out[0].numel() == 0) return;
  with_real(in[0].dtype(), [&]<class T> {
    solve_each<T>(Matrices<T>(without_repeats(in[0])), Matrices<T>(in[1]), Matrices<T>(out[0]));
  });
}

void Inv::cpu(Inputs in, Outputs out, const Attrs&) {
  with_real(in[0].dtype(), [&]<class T> {
    const Matrices<T> a(in[0]), y(out[0]);
    for_each_matrix(a.count(), cube(a.rows()),
                    [&](std::int64_t i) { y[i] = invertible("inv", a, i).inverse(); });
  });
}

void Det::cpu(Inputs in, Outputs out, const Attrs&) {
  with_real(in[0].dtype(), [&]<class T> {
    if (fill_for_empty<T>(in[0], out[0], 1)) return;
    T* const y = out[0].data<T>();
    decompose_each<T>("det", in[0],
                      [&](const Lu<T>& lu, std::int64_t i) { y[i] = lu.determinant(); });
  });
}

void Slogdet::cpu(Inputs in, Outputs out, const Attrs&) {
  with_real(in[0].dtype(), [&]<class T> {
    if (fill_for_empty<T>(in[0], out[0], 1) && fill_for_empty<T>(in[0], out[1], 0)) return;
    write_slogdet<T>(in[0], out);
  });
}

void Cofactors::cpu(Inputs in, Outputs out, const Attrs&) {
  with_real(in[0].dtype(), [&]<class T> {
    const Matrices<T> a(in[0]), y(out[0]);
    for_each_matrix(a.count(), cube(a.rows()),
                    [&](std::int64_t i) { y[i] = cofactors(finite_matrix<T>("det", a, i)); });
  });
}

}  // namespace mezzo::op
