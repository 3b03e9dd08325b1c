// Norms and distances where the generated op tests do not reach: zeros, ties, nan, empty tensors,
// invalid arguments.
#include <cmath>

#include <mezzo.h>

#include "../../tensor/device/parallel.h"
#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

using Values = std::vector<double>;

Tensor leaf_of(const Values& values, const Shape& shape, DType dtype = f64) {
  return tensor(values, shape, {.dtype = dtype}).requires_grad_();
}

}  // namespace

TEST_CASE("norms of nan, infinity and zero", "[norm]") {
  for (const double p : {0.5, 1.0, 1.5, 2.0, 3.0, -1.0, kInf, -kInf}) {
    INFO("p = " << p);
    CHECK(std::isnan(vector_norm(tensor({1, kNan, 2}, {3}), {}, {.p = p}).item<double>()));
    const double of_infinity = vector_norm(tensor({1, -kInf, 2}, {3}), {}, {.p = p}).item<double>();
    CHECK((p > 0 ? of_infinity == kInf : std::isfinite(of_infinity)));
  }
  CHECK(vector_norm(tensor({1, kNan, 0, kInf}, {4}), {}, {.p = 0}).item<double>() == 3);
  CHECK(vector_norm(tensor({1., 0, 2}, {3}), {}, {.p = -1}).item<double>() == 0);
  for (const double p : {0.0, 0.5, 1.0, 2.0, 3.0})
    CHECK(norm(zeros({0}), {}, {.p = p}).item<double>() == 0);
  CHECK_THROWS_AS(norm(zeros({0}), {}, {.p = kInf}), ShapeError);
  CHECK_THROWS_AS(norm(zeros({2}), {}, {.p = kNan}), ValueError);
  CHECK_THROWS_AS(norm(zeros({2}, {.dtype = i64})), DtypeError);
}

TEST_CASE("gradients of norms at nan, infinity and zero", "[norm]") {
  const auto gradient = [](const Values& values, double p, DType dtype = f64) {
    const Tensor x = leaf_of(values, {static_cast<std::int64_t>(values.size())}, dtype);
    vector_norm(x, {}, {.p = p}).backward();
    return x.grad().to_vector<double>();
  };
  CHECK(gradient({kInf, kNan, 0, 5}, 0) == Values{0, 0, 0, 0});
  CHECK(gradient({-2, 0, 3}, 1) == Values{-1, 0, 1});
  CHECK(gradient({0, -2, 0}, 2) == Values{0, -1, 0});
  CHECK(gradient({1, -1, 2}, -kInf) == Values{0.5, -0.5, 0});
  CHECK(gradient({0, 2, 5}, -1) == Values{0, 0, 0});
  CHECK(gradient({0, 4, 1}, 0.5) == Values{0, 1.5, 3});
  const Values to_nan = gradient({1, kNan, 7}, kInf);
  CHECK((to_nan[0] == 0 && to_nan[2] == 0));
  // Powers of so small a norm underflow in f32.
  const Values small = gradient({3e-13, -3e-13, 0}, 3, f32);
  CHECK(std::abs(small[0] - std::pow(2.0, -2.0 / 3)) < 1e-3);
}

TEST_CASE("normalize divides by at least eps", "[norm]") {
  const Tensor x = leaf_of({0, 0, 3, 4}, {2, 2});
  const Tensor y = normalize(x);
  CHECK(y.to_vector<double>() == Values{0, 0, 0.6, 0.8});
  y.backward(tensor({1, 2, 0, 0}, {2, 2}, {.dtype = f64}));
  CHECK(x.grad().to_vector<double>() == Values{1e12, 2e12, 0, 0});
  CHECK(normalize(tensor({3., -4}, {2}), {.p = kInf, .dim = 0}).to_vector<float>() ==
        std::vector<float>{0.75, -1});
  CHECK(std::isnan(normalize(tensor({1, kNan}, {1, 2})).to_vector<double>()[0]));
  CHECK(normalize(tensor({-3.}, Shape{}), {.dim = 0}).item<double>() == -1);
  CHECK_THROWS_AS(normalize(zeros({3})), IndexError);
  CHECK_THROWS_WITH_AS_TEXT(normalize(zeros({3, 2}, {.dtype = i64})), DtypeError,
                            "normalize: not defined for i64");
}

TEST_CASE("matrix norms: ties, nan, dimensions, empty tensors", "[norm]") {
  const Tensor x = leaf_of({1, -1, -1, 1}, {2, 2});
  matrix_norm(x, 1).backward();
  CHECK(x.grad().to_vector<double>() == Values{0.5, -0.5, -0.5, 0.5});
  const Tensor y = tensor({1., 2, 3, 4, 5, 6}, {2, 3});
  CHECK(matrix_norm(y, 1).item<double>() == 9);
  CHECK(matrix_norm(y, -1).item<double>() == 5);
  CHECK(matrix_norm(y, kInf).item<double>() == 15);
  CHECK(matrix_norm(y, -kInf).item<double>() == 6);
  CHECK(matrix_norm(y, kInf, {.dim = {1, 0}}).item<double>() == 9);
  CHECK(matrix_norm(y, "fro", {.dtype = f64}).item<double>() == std::sqrt(91.0));
  CHECK(std::isnan(matrix_norm(tensor({1, kNan, 3, 4}, {2, 2}), -1).item<double>()));
  CHECK(matrix_norm(zeros({2, 0})).item<double>() == 0);
  CHECK(matrix_norm(zeros({2, 0}), kInf).item<double>() == 0);
  CHECK_THROWS_AS(matrix_norm(zeros({2, 0}), 1), ShapeError);
  CHECK_THROWS_AS(matrix_norm(zeros({2})), ShapeError);
  CHECK_THROWS_AS(matrix_norm(y, "fro", {.dim = {0, -2}}), IndexError);
  CHECK_THROWS_AS(matrix_norm(y, "fro", {.dim = {0, 2}}), IndexError);
  CHECK_THROWS_WITH_AS_TEXT(matrix_norm(y, 3), ValueError,
                            "matrix_norm: no matrix norm of this order; got 3");
  CHECK_THROWS_WITH_AS_TEXT(matrix_norm(y, "nucl"), ValueError,
                            "matrix_norm: no norm of this name");
}

TEST_CASE("distances at zero, of different dtypes and shapes", "[distance]") {
  const Tensor a = leaf_of({1, 2}, {2}), b = leaf_of({1, 2}, {2});
  dist(a, b).backward();
  CHECK(a.grad().to_vector<double>() == Values{0, 0});
  CHECK(b.grad().to_vector<double>() == Values{0, 0});
  CHECK(dist(ones({2}, {.dtype = f16}), zeros({2})).dtype() == f32);
  CHECK(dist(ones({2}, {.dtype = f16}), zeros({2}, {.dtype = bf16})).dtype() == f32);
  CHECK(dist(ones({2}, {.dtype = f16}), zeros({2}, {.dtype = f16})).dtype() == f16);
  {
    const amp::autocast on;
    CHECK(dist(ones({2}, {.dtype = f16}), zeros({2}, {.dtype = f16})).dtype() == f32);
    CHECK(pairwise_distance(ones({2}), zeros({2}, {.dtype = f64})).dtype() == f64);
  }
  CHECK(pairwise_distance(zeros({3, 2}), zeros({2})).shape() == Shape{3});
  CHECK(pairwise_distance(zeros({3, 2}), zeros({2}), {.keepdim = true}).shape() == Shape{3, 1});
  CHECK_THROWS_AS(pairwise_distance(zeros(Shape{}), zeros(Shape{})), ShapeError);
  CHECK_THROWS_AS(pairwise_distance(zeros({3}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(dist(zeros({3}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(dist(zeros({3}), Tensor{}), ValueError);
  CHECK_THROWS_AS(dist(zeros({3}), zeros({3}, {.dtype = i64})), DtypeError);
  CHECK(dist(zeros({0}), zeros({0})).item<double>() == 0);
}

TEST_CASE("cosine similarity with a zero vector and with itself", "[distance]") {
  const Tensor a = leaf_of({0, 0, 3, 4}, {2, 2}), b = leaf_of({1, 2, 3, 4}, {2, 2});
  const Tensor y = cosine_similarity(a, b);
  CHECK(y.to_vector<double>() == Values{0, 1});
  sum(y).backward();
  for (const double g : a.grad().to_vector<double>()) CHECK(std::isfinite(g));
  CHECK(
      cosine_similarity(tensor({2.}, {1}), tensor({1., 1, 1, 1}, {4}), {.dim = 0}).item<double>() ==
      1);
  CHECK_THROWS_AS(cosine_similarity(zeros({3}), zeros({3})), IndexError);
  CHECK_THROWS_AS(cosine_similarity(zeros({3, 2}), zeros({3, 4})), ShapeError);
  CHECK_THROWS_AS(cosine_similarity(zeros({3, 2}, {.dtype = i64}), zeros({3, 2})), DtypeError);
}

TEST_CASE("pairwise distances of equal vectors", "[distance]") {
  // At distance 0 the gradient is 0, in both compute modes.
  for (const double p : {0.0, 0.5, 1.0, 1.5, 2.0, 3.0, kInf})
    for (const CdistMode mode : {CdistMode::do_not_use_mm, CdistMode::use_mm}) {
      INFO("p = " << p);
      const Tensor a = leaf_of({1, 2, 3, 4}, {2, 2}), b = leaf_of({1, 2, 1, 5}, {2, 2});
      const Tensor y = cdist(a, b, {.p = p, .compute_mode = mode});
      CHECK(y.to_vector<double>()[0] == 0);
      y.select(0, 0).select(0, 0).backward();
      CHECK(a.grad().to_vector<double>() == Values{0, 0, 0, 0});
      CHECK(b.grad().to_vector<double>() == Values{0, 0, 0, 0});
    }
  const Tensor x = leaf_of({1, 2, 1, 2, 1, 2}, {3, 2});
  sum(pdist(x)).backward();
  CHECK(x.grad().to_vector<double>() == Values(6, 0));
}

TEST_CASE("pairwise distances: gradients at ties, nan, empty tensors", "[distance]") {
  const Tensor a = leaf_of({3, -3, 1}, {1, 3}), b = leaf_of({0, 0, 1}, {1, 3});
  cdist(a, b, {.p = kInf}).backward();
  CHECK(a.grad().to_vector<double>() == Values{1, -1, 0});
  CHECK(b.grad().to_vector<double>() == Values{-1, 1, 0});
  for (const double p : {0.5, 1.0, 2.0, 3.0, kInf})
    for (const CdistMode mode : {CdistMode::do_not_use_mm, CdistMode::use_mm})
      CHECK(
          std::isnan(cdist(tensor({kNan, 0}, {1, 2}), zeros({1, 2}), {.p = p, .compute_mode = mode})
                         .item<double>()));
  CHECK(cdist(zeros({2, 0}), zeros({3, 0})).to_vector<double>() == Values(6, 0));
  CHECK(cdist(zeros({0, 4}), zeros({3, 4})).shape() == Shape{0, 3});
  CHECK(cdist(zeros({2, 1, 5, 4}), zeros({3, 6, 4})).shape() == Shape{2, 3, 5, 6});
  CHECK(pdist(zeros({1, 3})).shape() == Shape{0});
  CHECK(pdist(zeros({0, 3})).shape() == Shape{0});
  CHECK_THROWS_AS(cdist(zeros({2, 3}), zeros({2, 4})), ShapeError);
  CHECK_THROWS_AS(cdist(zeros({3}), zeros({2, 3})), ShapeError);
  CHECK_THROWS_AS(cdist(zeros({2, 2, 3}), zeros({3, 2, 3})), ShapeError);
  CHECK_THROWS_AS(cdist(zeros({2, 3}), zeros({2, 3}, {.dtype = f16})), DtypeError);
  CHECK_THROWS_AS(cdist(zeros({2, 3}, {.dtype = i64}), zeros({2, 3}, {.dtype = i64})), DtypeError);
  CHECK_THROWS_AS(cdist(zeros({2, 3}), Tensor{}), ValueError);
  CHECK_THROWS_WITH_AS_TEXT(cdist(zeros({2, 3}), zeros({2, 3}), {.p = -1}), ValueError,
                            "cdist: p out of range; got -1, expected 0 or more");
  CHECK_THROWS_AS(pdist(zeros({3})), ShapeError);
  CHECK_THROWS_AS(pdist(zeros({3, 2}), {.p = kNan}), ValueError);
}

TEST_CASE("distances of many pairs do not depend on threads and agree with single distances",
          "[distance]") {
  const auto waves = [](std::int64_t n, std::int64_t m, double step) {
    Values values;
    for (std::int64_t i = 0; i < n * m; ++i)
      values.push_back(std::sin(static_cast<double>(i) * step));
    return tensor(values, {n, m});
  };
  const Tensor a = waves(130, 70, 0.7), b = waves(200, 70, 1.3);
  const int before = num_threads();
  const auto run = [&](int threads) {
    set_num_threads(threads);
    const Tensor x = a.detach().requires_grad_(), y = b.detach().requires_grad_();
    const Tensor d = cdist(x, y, {.p = 3}), t = pdist(x);
    (sum(d * d) + sum(t * t)).backward();
    return std::vector<Tensor>{d.detach(), t.detach(), x.grad(), y.grad()};
  };
  const std::vector<Tensor> one = run(1), four = run(4);
  set_num_threads(before);
  for (std::size_t k = 0; k < one.size(); ++k)
    CHECK(one[k].to_vector<double>() == four[k].to_vector<double>());
  const Tensor expected = vector_norm(a.unsqueeze(1) - b.unsqueeze(0), -1, {.p = 3});
  CHECK(amax(abs(expected - one[0])).item<double>() < 1e-5);
  const Tensor products = cdist(a, b),
               direct = cdist(a, b, {.compute_mode = CdistMode::do_not_use_mm});
  CHECK(amax(abs(products - direct)).item<double>() < 1e-4);
}

TEST_CASE("renorm scales only the rows whose norm is above the maximum", "[norm]") {
  const Tensor x = leaf_of({3, 4, 0, 0.5, 0, 0}, {3, 2});
  const Tensor y = renorm(x, 2, 0, 1);
  const Values values = y.to_vector<double>();
  CHECK(std::abs(values[0] - 0.6) < 1e-7);
  CHECK(Values(values.begin() + 2, values.end()) == Values{0, 0.5, 0, 0});
  y.backward(ones({3, 2}, {.dtype = f64}));
  const Values g = x.grad().to_vector<double>();
  CHECK(Values(g.begin() + 2, g.end()) == Values{1, 1, 1, 1});
  CHECK(std::isnan(renorm(tensor({kNan, 4}, {1, 2}), 2, 0, 1).to_vector<double>()[0]));
  CHECK(renorm(tensor({3., 4}, {1, 2}), 2, 0, 0).to_vector<double>() == Values{0, 0});
  const Tensor wide = ones({4, 6}), view = wide.slice(1, 0, 6, 2);
  renorm_(view, 1, -1, 2);
  CHECK(std::abs(wide.to_vector<double>()[0] - 0.5) < 1e-6);
  CHECK(wide.to_vector<double>()[1] == 1);
  CHECK_THROWS_AS(renorm(zeros({3}), 2, 0, 1), ShapeError);
  CHECK_THROWS_AS(renorm(zeros({3, 2}), 2, 2, 1), IndexError);
  CHECK_THROWS_AS(renorm(zeros({3, 2}), 0, 0, 1), ValueError);
  CHECK_THROWS_AS(renorm(zeros({3, 2}), 2, 0, -1), ValueError);
  CHECK_THROWS_AS(renorm(zeros({3, 2}, {.dtype = i32}), 2, 0, 1), DtypeError);
  const Tensor half = zeros({3, 2}, {.dtype = f16});
  const amp::autocast on;
  CHECK_THROWS_AS(renorm_(half, 2, 0, 1), Error);
}
