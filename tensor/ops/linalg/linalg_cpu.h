// Batches of matrices for the kernels that use Eigen, and their checks. Only the CPU kernels of
// this folder include it.
#pragma once

// Arguments are checked before Eigen is called, and a batch is what runs in parallel.
#define EIGEN_NO_DEBUG
#define EIGEN_DONT_PARALLELIZE
#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>

#include "../../core/error.h"
#include "../../core/row_major.h"
#include "../../device/parallel.h"
#include "../../text/text.h"

namespace mezzo::cpu_kernels {

template <class T> using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
template <class T> using Column = Eigen::Matrix<T, Eigen::Dynamic, 1>;

/** The matrices of a row-major tensor. */
template <class T> class Matrices {
 public:
  using RowMajor = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

  explicit Matrices(const Tensor& x)
      : tensor_(row_major(x.detach())),
        rows_(x.shape()[x.dim() - 2]),
        columns_(x.shape()[x.dim() - 1]) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t columns() const { return columns_; }
  const Tensor& tensor() const { return tensor_; }
  /** Returns the number of matrices; 0 if they have no elements. */
  std::int64_t count() const {
    return tensor_.numel() == 0 ? 0 : tensor_.numel() / rows_ / columns_;
  }
  /** Returns matrix i as a view. */
  Eigen::Map<RowMajor> operator[](std::int64_t i) const {
    return {static_cast<T*>(tensor_.raw_data()) + i * rows_ * columns_, rows_, columns_};
  }

 private:
  Tensor tensor_;
  std::int64_t rows_, columns_;
};

/** Throws ValueError: matrix i of x is not what the op needs. */
[[noreturn]] inline void refuse_matrix(const char* op, const Tensor& x, std::int64_t i,
                                       std::string_view what, std::string_view expected) {
  const std::string which = x.dim() > 2 ? str("matrix ", i, " of the batch ") : "the matrix ";
  fail<ValueError>(
      ApiScope::outermost(op),
      {.what = which + std::string(what), .got = str(x), .expected = std::string(expected)});
}

/** Throws ValueError unless `matrix`, made from matrix i of x, is finite. */
template <class T, class M>
void require_finite(const char* op, const Matrices<T>& x, std::int64_t i, const M& matrix) {
  if (!matrix.allFinite())
    refuse_matrix(op, x.tensor(), i, "holds nan or infinity", "finite numbers");
}

/** Returns matrix i in Eigen's order of elements, converted to C. Errors: ValueError if it is not
 *  finite. */
template <class C, class T>
Matrix<C> finite_matrix(const char* op, const Matrices<T>& x, std::int64_t i) {
  Matrix<C> matrix = x[i].template cast<C>();
  require_finite(op, x, i, matrix);
  return matrix;
}

/** Writes identities: the orthogonal factors of matrices without rows or columns. */
template <class T> void write_identities(const Tensor& out) {
  const Matrices<T> y(out);
  for (std::int64_t i = 0; i < y.count(); ++i) y[i].setIdentity();
}

/** Returns how large a difference of numbers up to 1 may be and still be rounding errors of an
 *  elimination of n columns. */
template <class T> T rounding(std::int64_t n) {
  return 4 * std::numeric_limits<T>::epsilon() * std::sqrt(static_cast<T>(n));
}

/** Calls f.operator()<float>() or f.operator()<double>(). */
template <class F> void with_real(DType dtype, F&& f) {
  if (dtype == DType::f32)
    f.template operator()<float>();
  else
    f.template operator()<double>();
}

/** Calls f(i) for the matrices of a batch, in parallel. `multiplications` estimates the work for
 *  one of them. */
template <class F> void for_each_matrix(std::int64_t count, double multiplications, F&& f) {
  parallel_for(count, f, static_cast<double>(count) * (multiplications * 0.5 + 200));
}

}  // namespace mezzo::cpu_kernels
