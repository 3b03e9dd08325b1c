// The ops on matrices: reconstruction at larger sizes, degenerate matrices, bad input, casts, and
// the number of threads.
#include <cmath>

#include "../support/catch.h"
#include "../support/throws.h"
#include "../support/values.h"
#include "samples.h"

using namespace mezzo;
using linalg::QrMode;
using testing::kInf;
using testing::kNan;

namespace {

Tensor drawn_matrix(const Shape& shape, DType dtype = f64) {
  manual_seed(7);
  return randn(shape, {.dtype = dtype, .device = cases::test_device()});
}

Tensor matrix(const std::vector<double>& values, const Shape& shape) {
  return tensor(values, shape, {.dtype = f64, .device = cases::test_device()});
}

Tensor transposed(const Tensor& x) { return x.transpose(-2, -1); }

Tensor identity(const Tensor& x, std::int64_t n) {
  return eye(n, {.dtype = x.dtype(), .device = x.device()});
}

/** Returns the largest |a - b|, in units of the dtype's rounding. */
double epsilons_apart(const Tensor& a, const Tensor& b) {
  const double epsilon = a.dtype() == f32 ? 0x1p-23 : 0x1p-52;
  return max(abs(a - b)).item() / epsilon;
}

void check_orthonormal(const Tensor& columns) {
  const Tensor products = matmul(transposed(columns), columns);
  CHECK(epsilons_apart(products, identity(columns, columns.size(-1)).expand(products.shape())) <
        200);
}

}  // namespace

TEST_CASE("decompositions of any size reconstruct the matrix", "[linalg]") {
  for (const DType dtype : {f32, f64})
    for (const auto& [m, n] : std::vector<std::pair<std::int64_t, std::int64_t>>{
             {1, 1}, {2, 5}, {7, 7}, {17, 9}, {33, 65}, {65, 65}, {100, 3}}) {
      INFO(m << " by " << n << " in " << name(dtype));
      const Tensor x = drawn_matrix({2, m, n}, dtype);
      const double bound = 100 * static_cast<double>(std::max(m, n));
      for (const bool full : {false, true}) {
        const auto [u, s, vh] = linalg::svd(x, {.full_matrices = full});
        const std::int64_t k = std::min(m, n);
        check_orthonormal(u);
        check_orthonormal(transposed(vh));
        CHECK(epsilons_apart(matmul(u.narrow(-1, 0, k) * s.unsqueeze(-2), vh.narrow(-2, 0, k)), x) <
              bound);
        const auto [q, r] = linalg::qr(x, {.mode = full ? QrMode::complete : QrMode::reduced});
        check_orthonormal(q);
        CHECK(epsilons_apart(matmul(q, r), x) < bound);
        CHECK(equal(triu(r), r));
      }
      const Tensor y = linalg::pinv(x);
      CHECK(epsilons_apart(matmul(matmul(x, y), x), x) < 10 * bound);
      if (m != n) continue;
      CHECK(epsilons_apart(matmul(x, linalg::inv(x)), identity(x, n).expand(x.shape())) <
            1e5 * bound);
      CHECK(epsilons_apart(matmul(x, linalg::solve(x, x)), x) < 1e4 * bound);
      const Tensor symmetric = x + transposed(x);
      const auto [values, vectors] = linalg::eigh(symmetric);
      check_orthonormal(vectors);
      CHECK(epsilons_apart(matmul(vectors * values.unsqueeze(-2), transposed(vectors)), symmetric) <
            bound);
      const Tensor definite = matmul(x, transposed(x)) + identity(x, n);
      const Tensor l = linalg::cholesky(definite);
      CHECK(epsilons_apart(matmul(l, transposed(l)), definite) < 10 * bound);
      const auto [sign, logabsdet] = linalg::slogdet(definite);
      CHECK(epsilons_apart(logabsdet, 2 * sum(log(l.diagonal(0, -2, -1)), -1)) < bound);
      CHECK(equal(sign, ones_like(sign)));
    }
}

TEST_CASE("determinants have gradients at singular matrices", "[linalg]") {
  // The gradient is the matrix of cofactors.
  const Tensor x = matrix({1, 2, 2, 4}, {2, 2}).requires_grad_();
  const Tensor y = linalg::det(x);
  CHECK(std::abs(y.item()) < 1e-15);
  CHECK(epsilons_apart(grad({y}, {x})[0], matrix({4, -2, -2, 1}, {2, 2})) < 20);
  const Tensor zero = matrix(std::vector<double>(9, 0), {3, 3}).requires_grad_();
  CHECK(equal(grad({linalg::det(zero)}, {zero})[0], zeros_like(zero)));
  const auto twice = [](const Tensor& at) {
    const Tensor g = grad({linalg::det(at)}, {at}, {.create_graph = true})[0];
    return grad({sum(g * g)}, {at})[0];
  };
  const Tensor singular = matrix({1, 1, 1, 1}, {2, 2}).requires_grad_();
  CHECK_THROWS_WITH_AS_TEXT(twice(singular), ValueError, "there is no second derivative");
}

TEST_CASE("singular matrices have a log determinant of -inf and no gradient", "[linalg]") {
  const Tensor x = matrix({1, 2, 2, 4}, {2, 2}).requires_grad_();
  const auto [sign, logabsdet] = linalg::slogdet(x);
  CHECK(sign.item() == 0);
  CHECK(logabsdet.item() == -kInf);
  CHECK_FALSE(sign.requires_grad());
  CHECK_THROWS_WITH_AS_TEXT(grad({logabsdet}, {x}), ValueError, "singular");
}

TEST_CASE("a matrix is singular to rounding whatever the scales of its rows", "[linalg]") {
  const Tensor b = matrix({1, 2, 3}, {3});
  CHECK_THROWS_WITH_AS_TEXT(linalg::solve(matrix({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 3}), b),
                            ValueError, "solve: the matrix is singular to rounding");
  CHECK_THROWS_WITH_AS_TEXT(linalg::inv(matrix({0, 0, 0, 0}, {2, 2})), ValueError, "inv: ");
  CHECK_THROWS_WITH_AS_TEXT(linalg::inv(matrix({1, 0, 0, 1, 1, 1, 1, 1}, {2, 2, 2})), ValueError,
                            "matrix 1 of the batch is singular");
  CHECK(equal(linalg::inv(matrix({0x1p-60, 0, 0, 0x1p60}, {2, 2})),
              matrix({0x1p60, 0, 0, 0x1p-60}, {2, 2})));
  CHECK(equal(linalg::inv(matrix({1, 0x1p80, 0, 1}, {2, 2})), matrix({1, -0x1p80, 0, 1}, {2, 2})));
}

TEST_CASE("gradients of vectors are refused where they would be garbage", "[linalg]") {
  const Tensor same = (identity(matrix({0}, {1}), 3) * 2.0).requires_grad_();
  CHECK_THROWS_WITH_AS_TEXT(grad({sum(linalg::eigh(same).eigenvectors)}, {same}), ValueError,
                            "two eigenvalues are equal to rounding");
  CHECK_THROWS_WITH_AS_TEXT(grad({sum(linalg::svd(same).U)}, {same}), ValueError,
                            "two singular values are equal to rounding");
  const Tensor flat = matrix({1, 0, 0, 0, 0, 0}, {3, 2}).requires_grad_();
  CHECK_THROWS_WITH_AS_TEXT(grad({sum(linalg::svd(flat, {false}).U)}, {flat}), ValueError,
                            "a singular value is zero to rounding");
  CHECK_THROWS_WITH_AS_TEXT(grad({sum(linalg::qr(flat).Q)}, {flat}), ValueError, "qr: ");
  const Tensor tall = drawn_matrix({4, 2}).requires_grad_();
  CHECK_THROWS_WITH_AS_TEXT(grad({sum(linalg::svd(tall).U)}, {tall}), ValueError,
                            "singular vectors beyond the singular values");
  CHECK_THROWS_WITH_AS_TEXT(grad({sum(linalg::qr(tall, {QrMode::complete}).R)}, {tall}),
                            Unsupported, "use QrMode::reduced");
  // Rotated, equal eigenvalues differ by rounding errors.
  const Tensor q = linalg::qr(drawn_matrix({3, 3})).Q;
  const Tensor rotated = matmul(q * matrix({1, 1, 2}, {3}), transposed(q)).requires_grad_();
  CHECK_THROWS_WITH_AS_TEXT(grad({sum(linalg::eigh(rotated).eigenvectors)}, {rotated}), ValueError,
                            "two eigenvalues are equal to rounding");
}

TEST_CASE("values alone have gradients at equal values", "[linalg]") {
  const Tensor x = (identity(matrix({0}, {1}), 3) * 2.0).requires_grad_();
  CHECK(epsilons_apart(grad({sum(linalg::eigvalsh(x))}, {x})[0], identity(x, 3)) < 4);
  CHECK(epsilons_apart(grad({linalg::matrix_norm(x, "nuc")}, {x})[0], identity(x, 3)) < 4);
  CHECK(epsilons_apart(grad({linalg::matrix_norm(x, 2)}, {x})[0], identity(x, 3) / 3.0) < 4);
  CHECK(epsilons_apart(grad({sum(linalg::pinv(x).diagonal())}, {x})[0], identity(x, 3) / -4.0) < 4);
}

TEST_CASE("pinv drops small singular values", "[linalg]") {
  const Tensor x = matrix({4, 0, 0, 1e-3}, {2, 2}), small = matrix({0.25, 0, 0, 0}, {2, 2});
  CHECK(epsilons_apart(linalg::pinv(x), matrix({0.25, 0, 0, 1e3}, {2, 2})) < 1e4);
  CHECK(equal(linalg::pinv(x, {.rtol = 1e-3}), small));
  CHECK(equal(linalg::pinv(x, {.atol = 1e-2}), small));
  CHECK(equal(linalg::pinv(matrix({0, 0, 0, 0}, {2, 2})), zeros_like(small)));
}

TEST_CASE("only the triangle that an op names is read", "[linalg]") {
  const Tensor lower = matrix({2, kNan, 1, 2}, {2, 2}), upper = matrix({2, 1, kNan, 2}, {2, 2}),
               whole = matrix({2, 1, 1, 2}, {2, 2});
  CHECK(equal(linalg::cholesky(lower), linalg::cholesky(whole)));
  CHECK(equal(linalg::eigvalsh(lower), linalg::eigvalsh(whole)));
  CHECK(equal(linalg::eigvalsh(upper, {.UPLO = 'U'}), linalg::eigvalsh(whole)));
}

TEST_CASE("matrices without elements", "[linalg]") {
  const TensorOptions like{.dtype = f64, .device = cases::test_device()};
  const Tensor none = zeros({2, 0, 0}, like), flat = zeros({0, 3}, like);
  CHECK(equal(linalg::det(none), ones({2}, like)));
  CHECK(equal(linalg::slogdet(none).logabsdet, zeros({2}, like)));
  CHECK(linalg::inv(none).shape() == Shape{2, 0, 0});
  CHECK(linalg::pinv(flat).shape() == Shape{3, 0});
  CHECK(equal(linalg::svd(flat).Vh, eye(3, like)));
  CHECK(equal(linalg::qr(flat.t(), {QrMode::complete}).Q, eye(3, like)));
  CHECK(linalg::matrix_norm(flat, "nuc").item() == 0);
  CHECK_THROWS_AS(linalg::matrix_norm(flat, 2), ShapeError);
}

TEST_CASE("bad matrices are refused", "[linalg]") {
  const Tensor m = drawn_matrix({3, 4}), s = drawn_matrix({3, 3}), v = drawn_matrix({4});
  const Tensor holes = matrix({1, kNan, 0, 1}, {2, 2}), endless = matrix({1, 0, 0, kInf}, {2, 2});
  for (const auto& call : std::vector<Tensor (*)(const Tensor&)>{
           [](const Tensor& x) { return linalg::inv(x); },
           [](const Tensor& x) { return linalg::det(x); },
           [](const Tensor& x) { return linalg::slogdet(x).sign; },
           [](const Tensor& x) { return linalg::cholesky(x.transpose(-2, -1)); },
           [](const Tensor& x) { return linalg::eigh(x, {.UPLO = 'U'}).eigenvalues; },
           [](const Tensor& x) { return linalg::solve(x, x); }}) {
    CHECK_THROWS_WITH_AS_TEXT(call(m), ShapeError, "the matrix is not square; got f64[");
    CHECK_THROWS_WITH_AS_TEXT(call(s.to(f16)), DtypeError, "use x.to(f32)");
    CHECK_THROWS_WITH_AS_TEXT(call(s.to(i64)), DtypeError, "not defined for i64");
    CHECK_THROWS_WITH_AS_TEXT(call(holes), ValueError, "the matrix holds nan or infinity");
    CHECK_THROWS_WITH_AS_TEXT(call(endless), ValueError, "the matrix holds nan or infinity");
  }
  for (const auto& call :
       std::vector<Tensor (*)(const Tensor&)>{[](const Tensor& x) { return linalg::qr(x).Q; },
                                              [](const Tensor& x) { return linalg::svd(x).S; },
                                              [](const Tensor& x) { return linalg::svdvals(x); },
                                              [](const Tensor& x) { return linalg::pinv(x); }}) {
    CHECK_THROWS_WITH_AS_TEXT(call(v), ShapeError, "not a matrix; got f64[4]");
    CHECK_THROWS_WITH_AS_TEXT(call(m.to(bf16)), DtypeError, "use x.to(f32)");
    CHECK_THROWS_WITH_AS_TEXT(call(m.to(boolean)), DtypeError, "not defined for bool");
    CHECK_THROWS_WITH_AS_TEXT(call(holes), ValueError, "the matrix holds nan or infinity");
  }
  CHECK_THROWS_WITH_AS_TEXT(linalg::cholesky(matrix({1, 2, 2, 1}, {2, 2})), ValueError,
                            "cholesky: the matrix is not positive definite");
  CHECK_THROWS_WITH_AS_TEXT(linalg::solve(s, drawn_matrix({4, 2})), ShapeError, "numbers of rows");
  CHECK_THROWS_WITH_AS_TEXT(linalg::solve(s, s.to(f32)), DtypeError, "dtypes differ");
  CHECK_THROWS_WITH_AS_TEXT(linalg::solve(s, Tensor{}), ValueError, "undefined");
  CHECK_THROWS_AS(linalg::solve(drawn_matrix({2, 3, 3}), drawn_matrix({5, 3, 1})), ShapeError);
  CHECK_THROWS_WITH_AS_TEXT(linalg::eigh(s, {.UPLO = 'l'}), ValueError, "expected 'L' or 'U'");
  CHECK_THROWS_WITH_AS_TEXT(linalg::pinv(m, {.rtol = -1}), ValueError, "rtol is negative");
  CHECK_THROWS_WITH_AS_TEXT(linalg::pinv(m, {.atol = kNan}), ValueError, "atol is negative or nan");
}

TEST_CASE("right-hand sides and incoming gradients may hold nan and infinity", "[linalg]") {
  const Tensor a = matrix({2, 0, 0, 4}, {2, 2}).requires_grad_();
  const Tensor x = linalg::solve(a, matrix({1, kInf}, {2}));
  CHECK_FALSE(std::isfinite(x[1].item()));
  const Tensor g = grad({linalg::inv(a)}, {a}, {}, {matrix({kInf, 0, 0, 1}, {2, 2})})[0];
  CHECK_FALSE(all(isfinite(g)).item<bool>());
}

TEST_CASE("autocast computes on matrices in f32", "[linalg]") {
  const Tensor half = drawn_matrix({3, 3}, f32).to(f16), wide = half.to(f32);
  const amp::autocast on({.dtype = f16});
  CHECK(cases::same_bits(linalg::inv(half), linalg::inv(wide)));
  CHECK(cases::same_bits(linalg::solve(half, half), linalg::solve(wide, wide)));
  CHECK(cases::same_bits(linalg::svdvals(half), linalg::svdvals(wide)));
}

TEST_CASE("batches have the same bits on any number of threads", "[linalg]") {
  const Tensor x = drawn_matrix({9, 20, 20}), symmetric = matmul(x, transposed(x));
  const auto results = [&] {
    return std::vector<Tensor>{linalg::inv(x),
                               linalg::det(x),
                               linalg::qr(x).Q,
                               linalg::svd(x).U,
                               linalg::cholesky(symmetric),
                               linalg::eigh(symmetric).eigenvectors,
                               linalg::pinv(x),
                               linalg::solve(x, symmetric)};
  };
  const int before = num_threads();
  set_num_threads(1);
  const std::vector<Tensor> expected = results();
  set_num_threads(4);
  const std::vector<Tensor> got = results();
  set_num_threads(before);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(cases::same_bits(got[i], expected[i]));
}
