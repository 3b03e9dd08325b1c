// Initial values: their distributions, bounds and fans.
#include "../../nn/init.h"

#include <algorithm>
#include <cmath>

#include "../../nn/linear.h"
#include "../../tensor/ops/ops.h"
#include "../support/catch.h"

using namespace mezzo;
namespace init = nn::init;

namespace {

struct Moments {
  double mean = 0, std = 0, low = 0, high = 0;
};

Moments moments(const Tensor& x) {
  const std::vector<double> v = x.to_vector<double>();
  Moments m{0, 0, v[0], v[0]};
  for (double a : v) {
    m.mean += a / static_cast<double>(v.size());
    m.low = std::min(m.low, a);
    m.high = std::max(m.high, a);
  }
  for (double a : v) m.std += (a - m.mean) * (a - m.mean) / static_cast<double>(v.size());
  m.std = std::sqrt(m.std);
  return m;
}

void check_uniform(const Tensor& x, double bound) {
  const Moments m = moments(x);
  CHECK(m.low >= -bound);
  CHECK(m.high <= bound);
  CHECK(m.low < -0.99 * bound);
  CHECK(m.high > 0.99 * bound);
  CHECK(m.std == Approx(bound / std::sqrt(3.0)).epsilon(0.02));
  CHECK(std::abs(m.mean) < 0.02 * bound);
}

void check_normal(const Tensor& x, double std) {
  const Moments m = moments(x);
  CHECK(m.std == Approx(std).epsilon(0.02));
  CHECK(std::abs(m.mean) < 0.02 * std);
  CHECK(m.high > 3 * std);
}

}  // namespace

TEST_CASE("fans and gains") {
  CHECK(init::fans_of(ones({6, 4})).in == 4);
  CHECK(init::fans_of(ones({6, 4})).out == 6);
  CHECK(init::fans_of(ones({6, 4, 3, 5})).in == 60);
  CHECK(init::fans_of(ones({6, 4, 3, 5})).out == 90);
  CHECK_THROWS_AS(init::fans_of(ones({6})), ShapeError);
  using init::Nonlinearity;
  CHECK(init::gain(Nonlinearity::linear) == 1);
  CHECK(init::gain(Nonlinearity::sigmoid) == 1);
  CHECK(init::gain(Nonlinearity::tanh) == Approx(5.0 / 3));
  CHECK(init::gain(Nonlinearity::relu) == Approx(std::sqrt(2.0)));
  CHECK(init::gain(Nonlinearity::leaky_relu, 0.5) == Approx(std::sqrt(1.6)));
  CHECK(init::gain(Nonlinearity::selu) == 0.75);
}

TEST_CASE("distributions have the documented spread") {
  manual_seed(3);
  const Tensor w = empty({200, 100});
  check_uniform(init::uniform_(w, -3, 3), 3);
  check_normal(init::normal_(w, 0, 2), 2);
  check_uniform(init::xavier_uniform_(w, 2), 2 * std::sqrt(6.0 / 300));
  check_normal(init::xavier_normal_(w), std::sqrt(2.0 / 300));
  check_uniform(init::kaiming_uniform_(w), std::sqrt(2.0) * std::sqrt(3.0 / 100));
  check_uniform(init::kaiming_uniform_(w, {.slope = std::sqrt(5.0)}), 0.1);
  check_normal(
      init::kaiming_normal_(w, {.fan = init::Fan::out, .nonlinearity = init::Nonlinearity::relu}),
      std::sqrt(2.0 / 200));
  CHECK(moments(init::constant_(w, 7)).low == 7);
  CHECK(moments(w).high == 7);
  CHECK(init::ones_(w).to_vector<double>()[5] == 1);
  CHECK(init::zeros_(w).to_vector<double>()[5] == 0);
}

TEST_CASE("truncated normal values stay within the bounds and keep their spread") {
  manual_seed(3);
  const Tensor w = empty({20000});
  const Moments m = moments(init::trunc_normal_(w, {.std = 0.02}));
  CHECK(m.std == Approx(0.02).epsilon(0.02));
  const Moments cut = moments(init::trunc_normal_(w, {.mean = 1, .std = 2, .low = 0, .high = 4}));
  CHECK(cut.low >= 0);
  CHECK(cut.high <= 4);
  CHECK(cut.low < 0.01);
  CHECK(cut.high > 3.98);
  // Mean of N(1, 4) on [0, 4]: 1 + 2 (phi(-1/2) - phi(3/2)) / (Phi(3/2) - Phi(-1/2)).
  CHECK(cut.mean == Approx(1.7138).margin(0.03));
  CHECK_THROWS_AS(init::trunc_normal_(w, {.std = 0}), ValueError);
  CHECK_THROWS_AS(init::trunc_normal_(w, {.low = 1, .high = 1}), ValueError);
}

TEST_CASE("orthogonal weights have orthonormal rows or columns") {
  manual_seed(1);
  const auto check = [](const Tensor& w, double gain) {
    init::orthogonal_(w, gain);
    const Tensor m = w.detach().to(f64).flatten(1);
    const Tensor square = m.size(0) <= m.size(1) ? matmul(m, m.t()) : matmul(m.t(), m);
    const std::vector<double> v = square.to_vector<double>();
    const auto n = static_cast<std::size_t>(square.size(0));
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < n; ++j)
        CHECK(v[i * n + j] == Approx(i == j ? gain * gain : 0).margin(1e-5));
  };
  check(empty({6, 10}), 1);
  check(empty({10, 6}), 2);
  check(empty({4, 2, 3, 3}, {.requires_grad = true}), 1);
  check(empty({1, 1}), 1);
  CHECK_THROWS_AS(init::orthogonal_(empty({3})), ShapeError);
}

TEST_CASE("initial values work in every floating dtype, on parameters, and for no elements") {
  for (DType dtype : {f16, bf16, f32, f64}) {
    const Tensor w = empty({100, 50}, {.dtype = dtype, .requires_grad = true});
    CHECK(moments(init::kaiming_uniform_(w)).std > 0.01);
    CHECK(moments(init::trunc_normal_(w)).std > 0.1);
    CHECK(w.requires_grad());
    CHECK(w.is_leaf());
  }
  init::kaiming_uniform_(empty({0, 4}));
  init::xavier_normal_(empty({4, 0}));
  init::orthogonal_(empty({0, 4}));
}

TEST_CASE("layers start from PyTorch's distributions, drawn from the seed") {
  manual_seed(11);
  const nn::Linear a(400, 60);
  manual_seed(11);
  const nn::Linear b(400, 60), c(400, 60);
  CHECK(a.weight().to_vector<float>() == b.weight().to_vector<float>());
  CHECK(a.bias().to_vector<float>() == b.bias().to_vector<float>());
  CHECK(a.weight().to_vector<float>() != c.weight().to_vector<float>());
  check_uniform(a.weight(), 0.05);
  CHECK(moments(a.bias()).high <= 0.05);
  CHECK(moments(a.bias()).std == Approx(0.05 / std::sqrt(3.0)).epsilon(0.2));
}
