#include <mezzo.h>

#include <cmath>

#include "../support/catch.h"

using namespace mezzo;

namespace {

const double kInf = std::numeric_limits<double>::infinity();

Tensor with_gradient(std::vector<double> gradient, DType dtype = f32) {
  const Tensor p =
      zeros({static_cast<std::int64_t>(gradient.size())}, {.dtype = dtype}).requires_grad_();
  p.set_grad(tensor(gradient, {.dtype = dtype}));
  return p;
}

}  // namespace

TEST_CASE("clip_grad_norm scales all gradients by one factor") {
  const Tensor a = with_gradient({3, 0}), b = with_gradient({4}),
               none = zeros({2}).requires_grad_();
  const std::vector<Tensor> params{a, none, b};
  CHECK(optim::clip_grad_norm(params, 10).item<float>() == 5);
  CHECK(a.grad().to_vector<float>() == std::vector<float>{3, 0});
  CHECK(optim::clip_grad_norm(params, 1).item<float>() == 5);
  CHECK(a.grad().to_vector<float>()[0] == Approx(0.6));
  CHECK(b.grad().item<float>() == Approx(0.8));
  CHECK(optim::clip_grad_norm({}, 1).item<float>() == 0);
}

TEST_CASE("norms of other orders") {
  const std::vector<Tensor> list{tensor({-1., 2}), tensor(2.0, {.dtype = f16})};
  CHECK(optim::total_norm(list, {.p = kInf}).item<double>() == 2);
  CHECK(optim::total_norm(list, {.p = 1}).item<double>() == 5);
  CHECK(optim::total_norm(list, {.p = 3}).item<float>() == Approx(std::cbrt(17.0)));
  CHECK(optim::total_norm(list).dtype() == f32);
  CHECK(optim::total_norm(std::vector{tensor({3, 4}, {.dtype = f64})}).dtype() == f64);
  CHECK_THROWS_AS(optim::total_norm(list, {.p = 0}), ValueError);
}

TEST_CASE("norms do not overflow and do not depend on the number of threads") {
  CHECK(optim::total_norm(std::vector{full({4}, 1e30)}).item<float>() == Approx(2e30));
  std::vector<double> values(300000);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
  const std::vector<Tensor> list{tensor(values), tensor(1.0)};
  const int threads = num_threads();
  set_num_threads(1);
  const float one = optim::total_norm(list).item<float>();
  set_num_threads(3);
  CHECK(optim::total_norm(list).item<float>() == one);
  set_num_threads(threads);
  CHECK(one == Approx(std::sqrt(150001.0)).epsilon(1e-4));
}

TEST_CASE("non-finite gradients give a non-finite norm") {
  const double type = GENERATE(2.0, 1.0, std::numeric_limits<double>::infinity());
  const Tensor inf = with_gradient({1, kInf}), nan = with_gradient({std::nan(""), 1});
  CHECK(std::isinf(optim::clip_grad_norm(std::vector{inf}, 1, {.norm_type = type}).item<float>()));
  CHECK(
      std::isnan(optim::clip_grad_norm(std::vector{nan, with_gradient({1})}, 1, {.norm_type = type})
                     .item<float>()));
  CHECK(std::isnan(nan.grad().to_vector<float>()[1]));
  const Tensor kept = with_gradient({2, kInf});
  CHECK_THROWS_AS(
      optim::clip_grad_norm(std::vector{kept}, 1, {.norm_type = type, .error_if_nonfinite = true}),
      ValueError);
  CHECK(kept.grad().to_vector<float>()[0] == 2);
}

TEST_CASE("clip_grad_value clamps") {
  const Tensor p = with_gradient({-3, 0.5, 3, std::nan(""), kInf}, f16);
  optim::clip_grad_value(std::vector{p}, 1);
  const std::vector<float> clipped = p.grad().to_vector<float>();
  CHECK(clipped[0] == -1);
  CHECK(clipped[1] == 0.5f);
  CHECK(clipped[2] == 1);
  CHECK(std::isnan(clipped[3]));
  CHECK(clipped[4] == 1);
  CHECK_THROWS_AS(optim::clip_grad_value(std::vector{p}, -1), ValueError);
  CHECK_THROWS_AS(optim::clip_grad_norm(std::vector{p}, -1), ValueError);
}
