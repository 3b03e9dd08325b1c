// Kernels of the singular value decomposition and of the Moore-Penrose inverse. They compute in
// f64, and round to f32 once: Eigen's decomposition is slow to compile.
#include "linalg_cpu.h"

#include <Eigen/SVD>

#include "linalg.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

using Decomposition = Eigen::BDCSVD<Matrix<double>>;

/** Returns the decomposition of matrix i. Errors: ValueError if it is not finite. */
template <class T>
Decomposition decomposition(const char* op, const Matrices<T>& x, std::int64_t i, bool full) {
  const unsigned options =
      full ? Eigen::ComputeFullU | Eigen::ComputeFullV : Eigen::ComputeThinU | Eigen::ComputeThinV;
  Decomposition svd(finite_matrix<double>(op, x, i), options);
  if (svd.info() != Eigen::Success)
    refuse_matrix(op, x.tensor(), i, "has singular values that the iteration did not find", "");
  return svd;
}

template <class T> double work_of(const Matrices<T>& x) {
  return 10 * static_cast<double>(x.rows() * x.columns() * std::max(x.rows(), x.columns()));
}

template <class T> void decompose(const Tensor& x, Outputs out, bool full) {
  const Matrices<T> a(x), u(out[0]), vh(out[2]);
  T* const values = out[1].data<T>();
  const std::int64_t k = std::min(a.rows(), a.columns());
  for_each_matrix(a.count(), work_of(a), [&](std::int64_t i) {
    const Decomposition svd = decomposition("svd", a, i, full);
    Eigen::Map<Column<T>>(values + i * k, k) = svd.singularValues().cast<T>();
    u[i] = svd.matrixU().cast<T>();
    vh[i] = svd.matrixV().transpose().cast<T>();
  });
}

/** Returns the largest singular value that counts as zero. */
double tolerance_of(const Pinv::Attrs& attrs, std::int64_t size, double epsilon, double largest) {
  const bool only_absolute = !attrs.rtol && attrs.atol.value_or(0) > 0;
  const double usual = only_absolute ? 0 : static_cast<double>(size) * epsilon;
  return std::max(attrs.atol.value_or(0), attrs.rtol.value_or(usual) * largest);
}

template <class T> void invert(const Tensor& x, const Tensor& out, const Pinv::Attrs& attrs) {
  const Matrices<T> a(x), y(out);
  const std::int64_t size = std::max(a.rows(), a.columns());
  for_each_matrix(a.count(), work_of(a), [&](std::int64_t i) {
    const Decomposition svd = decomposition("pinv", a, i, false);
    const Column<double>& values = svd.singularValues();
    const double zero = tolerance_of(attrs, size, std::numeric_limits<T>::epsilon(), values[0]);
    const Column<double> inverse =
        values.unaryExpr([&](double v) { return v > zero ? 1 / v : 0.0; });
    const Matrix<double> right = svd.matrixV() * inverse.asDiagonal();
    const Matrix<double> product = right * svd.matrixU().transpose();
    y[i] = product.cast<T>();
  });
}

}  // namespace

void Svd::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  with_real(in[0].dtype(), [&]<class T> {
    if (in[0].numel() > 0) return decompose<T>(in[0], out, attrs.full_matrices);
    write_identities<T>(out[0]);
    write_identities<T>(out[2]);
  });
}

void Pinv::cpu(Inputs in, Outputs out, const Attrs& attrs) {
  with_real(in[0].dtype(), [&]<class T> { invert<T>(in[0], out[0], attrs); });
}

}  // namespace mezzo::op
