// Kernel of the QR decomposition. It computes in f64, and rounds to f32 once.
#include "linalg_cpu.h"

#include <Eigen/QR>

#include "linalg.h"

namespace mezzo::op {

namespace {

using namespace cpu_kernels;

template <class T> void decompose(const Tensor& x, Outputs out) {
  const Matrices<T> a(x), q(out[0]), r(out[1]);
  const auto work = static_cast<double>(a.rows() * a.columns() * (a.columns() + q.columns()));
  for_each_matrix(a.count(), work, [&](std::int64_t i) {
    const Eigen::HouseholderQR<Matrix<double>> qr(finite_matrix<double>("qr", a, i));
    Matrix<double> orthogonal = Matrix<double>::Identity(q.rows(), q.columns());
    orthogonal.applyOnTheLeft(qr.householderQ());
    q[i] = orthogonal.cast<T>();
    const Matrix<double> upper =
        qr.matrixQR().topRows(r.rows()).template triangularView<Eigen::Upper>();
    r[i] = upper.cast<T>();
  });
}

}  // namespace

void Qr::cpu(Inputs in, Outputs out, const Attrs&) {
  with_real(in[0].dtype(), [&]<class T> {
    if (in[0].numel() == 0)
      write_identities<T>(out[0]);
    else
      decompose<T>(in[0], out);
  });
}

}  // namespace mezzo::op
