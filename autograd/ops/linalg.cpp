#include "linalg.h"

#include "../../tensor/core/dispatch.h"
#include "../../tensor/ops/linalg.h"

namespace mezzo::linalg {

Tensor cholesky(const Tensor& x, const CholeskyOptions& options) {
  return apply_with<op::Cholesky>({options.upper}, x);
}

Tensor det(const Tensor& x) { return apply<op::Det>(x); }

EighResult eigh(const Tensor& x, const EighOptions& options) {
  auto [values, vectors] = apply_all<op::Eigh>({options.UPLO}, x);
  return {std::move(values), std::move(vectors)};
}

Tensor eigvalsh(const Tensor& x, const EighOptions& options) {
  return apply_with<op::Eigvalsh>({options.UPLO}, x);
}

Tensor inv(const Tensor& x) { return apply<op::Inv>(x); }

Tensor pinv(const Tensor& x, const PinvOptions& options) {
  return apply_with<op::Pinv>({options.rtol, options.atol}, x);
}

QrResult qr(const Tensor& x, const QrOptions& options) {
  auto [q, r] = apply_all<op::Qr>({options.mode == QrMode::complete}, x);
  return {std::move(q), std::move(r)};
}

SlogdetResult slogdet(const Tensor& x) {
  auto [sign, logabsdet] = apply_all<op::Slogdet>({}, x);
  return {sign.detach(), std::move(logabsdet)};
}

Tensor solve(const Tensor& A, const Tensor& B) { return apply<op::Solve>(A, B); }

SvdResult svd(const Tensor& x, const SvdOptions& options) {
  auto [u, s, vh] = apply_all<op::Svd>({options.full_matrices}, x);
  return {std::move(u), std::move(s), std::move(vh)};
}

Tensor svdvals(const Tensor& x) { return apply<op::Svdvals>(x); }

}  // namespace mezzo::linalg
