// Golden cases of the ops on matrices. See also: cases_linalg.py.
#include "golden.h"

using namespace mezzo;
using namespace golden;

namespace {

using linalg::QrMode;

Tensor transposed(const Tensor& x) { return x.transpose(-2, -1); }

Tensors sign_and_log(const Tensor& x) {
  const auto [sign, logabsdet] = linalg::slogdet(x);
  return {sign, logabsdet};
}

Tensors factors(const Tensor& x, QrMode mode = QrMode::reduced) {
  const auto [q, r] = linalg::qr(x, {.mode = mode});
  return {q, r};
}

/** Results in which the signs of vectors cancel, as in cases_linalg.py. */
Tensors eigenvectors(const Tensor& x, char triangle = 'L') {
  const auto [values, vectors] = linalg::eigh(x, {.UPLO = triangle});
  return {values, vectors * vectors,
          matmul(vectors * exp(-values).unsqueeze(-2), transposed(vectors))};
}

Tensors singular_vectors(const Tensor& x, bool full) {
  const auto [all_u, s, all_vh] = linalg::svd(x, {.full_matrices = full});
  const std::int64_t k = s.size(-1);
  const Tensor u = all_u.narrow(-1, 0, k), vh = all_vh.narrow(-2, 0, k);
  return {s, u * u, vh * vh, matmul(u, vh)};
}

// Both libraries round f32 in factorisations of several steps.
constexpr double kFactor = 20;

void add_square() {
  for (const char* variant : {"", "/vector", "/vectors", "/batches", "/one matrix"})
    GOLDEN_WITHIN(std::string("solve") + variant, kFactor, linalg::solve(x[0], x[1]));
  for (const char* variant : {"", "/1 by 1", "/batch", "/20 by 20"}) {
    GOLDEN_WITHIN(std::string("inv") + variant, kFactor, linalg::inv(x[0]));
    GOLDEN_WITHIN(std::string("det") + variant, kFactor, linalg::det(x[0]));
    GOLDEN_WITHIN(std::string("slogdet") + variant, kFactor, sign_and_log(x[0]));
    GOLDEN_WITHIN(std::string("cholesky") + variant, kFactor, linalg::cholesky(x[0]));
    GOLDEN_WITHIN(std::string("eigvalsh") + variant, kFactor, linalg::eigvalsh(x[0]));
  }
  GOLDEN_WITHIN("slogdet/negative", kFactor, sign_and_log(-x[0]));
  GOLDEN_WITHIN("cholesky/upper", kFactor, linalg::cholesky(x[0], {.upper = true}));
  GOLDEN_WITHIN("eigh", kFactor, eigenvectors(x[0]));
  GOLDEN_WITHIN("eigh/batch", kFactor, eigenvectors(x[0]));
  GOLDEN_WITHIN("eigh/upper", kFactor, eigenvectors(x[0], 'U'));
  GOLDEN_WITHIN("eigh/triangle", kFactor, eigenvectors(x[0]));
}

void add_any_size() {
  for (const char* variant : {"", "/tall", "/wide", "/batch", "/20 by 9"}) {
    GOLDEN_WITHIN(std::string("qr") + variant, kFactor, factors(x[0]));
    GOLDEN_WITHIN(std::string("svdvals") + variant, kFactor, linalg::svdvals(x[0]));
    GOLDEN_WITHIN(std::string("pinv") + variant, kFactor, linalg::pinv(x[0]));
    GOLDEN_WITHIN(std::string("svd") + variant, kFactor, singular_vectors(x[0], false));
  }
  for (const char* variant : {"", "tall", "wide", "batch", "20 by 9"})
    GOLDEN_WITHIN(std::string("svd/full ") + variant, kFactor, singular_vectors(x[0], true));
  GOLDEN_WITHIN("qr/complete", kFactor, factors(x[0], QrMode::complete));
  GOLDEN_WITHIN("pinv/rank 1", kFactor, linalg::pinv(x[0]));
  GOLDEN_WITHIN("pinv/rtol", kFactor, linalg::pinv(x[0], {.rtol = 0.7}));
  GOLDEN_WITHIN("pinv/atol", kFactor, linalg::pinv(x[0], {.atol = 4.5}));
  GOLDEN_WITHIN("matrix_norm/nuc", kFactor, linalg::matrix_norm(x[0], "nuc"));
  GOLDEN_WITHIN("matrix_norm/2", kFactor, linalg::matrix_norm(x[0], 2));
  GOLDEN_WITHIN("matrix_norm/-2", kFactor, linalg::matrix_norm(x[0], -2));
  GOLDEN_WITHIN("matrix_norm/dimensions", kFactor,
                linalg::matrix_norm(x[0], "nuc", {.dim = {2, 0}, .keepdim = true}));
}

const Registrar additions([] {
  add_square();
  add_any_size();
});

}  // namespace
