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

// ---- powers out of range ------------------------------------------------------------------------

namespace {

/** A list of gradients 3 * size and 4 * size in tensors of their own, with zeros beside them. */
struct Sized {
  DType dtype;
  double size, p;

  double norm() const {
    return std::isinf(p) ? 4 * size : size * std::pow(std::pow(3, p) + std::pow(4, p), 1 / p);
  }
  std::vector<Tensor> tensors() const {
    return {tensor({0., 3 * size}, {.dtype = dtype}), zeros({5000}, {.dtype = dtype}),
            tensor({4 * size}, {.dtype = dtype})};
  }
};
const Sized kSized[] = {
    {f32, 5e37, 9},   {f32, 5e37, 20},    {f32, 1e34, 9},    {f32, 0x1p-135, 9}, {f32, 1e-35, 20},
    {f32, 5e37, 2},   {f32, 0x1p-135, 2}, {bf16, 5e37, 12},  {bf16, 1e-37, 12},  {f16, 1e4, 80},
    {f64, 1e200, 2},  {f64, 4e307, 2},    {f64, 1e-200, 2},  {f64, 1e-310, 2},   {f64, 1e155, 3},
    {f64, 1e-150, 3}, {f64, 1e300, 0.5},  {f64, 1e-300, 20}, {f64, 1e300, kInf}};

}  // namespace

TEST_CASE("norms of lists whose powers leave the range of f64") {
  for (const Sized& sized : kSized) {
    INFO(name(sized.dtype) << " " << sized.size << ", order " << sized.p);
    const double error = sized.dtype == f32 || sized.dtype == f64 ? 1e-6 : 1e-2;
    const std::vector<Tensor> list = sized.tensors();
    const optim::Norms norms = optim::norms(list, {.p = sized.p});
    CHECK(norms.total.item<double>() == Approx(sized.norm()).epsilon(error));
    const std::vector<double> each = norms.each.to_vector<double>();
    CHECK(each[0] == Approx(3 * sized.size).epsilon(error));
    CHECK(each[1] == 0);
    CHECK(each[2] == Approx(4 * sized.size).epsilon(error));
    CHECK(optim::norms(std::vector{list[1]}, {.p = sized.p}).total.item<double>() == 0);
  }
}

TEST_CASE("norms of chunks of very different sizes") {
  for (const double p : {2.0, 9.0}) {
    const Tensor x = ones({200000}, f64), y = full({70000}, 1e-200, f64);
    x.narrow(0, 150000, 2).fill_(1e200);
    y.narrow(0, 69999, 1).fill_(1e-170);
    const optim::Norms norms = optim::norms(std::vector{x, y}, {.p = p});
    CHECK(norms.total.item<double>() == Approx(1e200 * std::pow(2, 1 / p)).epsilon(1e-12));
    CHECK(norms.each.to_vector<double>()[1] == Approx(1e-170).epsilon(1e-12));
    // An infinity or a NaN beside them stays what it is.
    x.narrow(0, 7, 1).fill_(kInf);
    CHECK(optim::norms(std::vector{x, y}, {.p = p}).total.item<double>() == kInf);
    y.narrow(0, 7, 1).fill_(std::nan(""));
    CHECK(std::isnan(optim::norms(std::vector{x, y}, {.p = p}).total.item<double>()));
  }
}

TEST_CASE("clip_grad_norm of gradients whose powers leave the range of f64") {
  for (const Sized& sized : kSized) {
    // 1e-6 is added to the norm before the division: tiny gradients are not clipped.
    if (sized.size < 1 || sized.norm() > (sized.dtype == f64 ? 1e308 : 3e38)) continue;
    INFO(name(sized.dtype) << " " << sized.size << ", order " << sized.p);
    std::vector<Tensor> params;
    for (const Tensor& g : sized.tensors()) {
      params.push_back(zeros_like(g).requires_grad_());
      params.back().set_grad(g);
    }
    const double most = sized.norm() / 2;
    const Tensor norm = optim::clip_grad_norm(params, most, {.norm_type = sized.p});
    CHECK(norm.item<double>() == Approx(sized.norm()).epsilon(1e-2));
    CHECK(params[0].grad().to_vector<double>()[1] == Approx(1.5 * sized.size).epsilon(1e-2));
    CHECK(params[2].grad().item<double>() == Approx(2 * sized.size).epsilon(1e-2));
  }
}

TEST_CASE("gradients whose norm only f64 holds are clipped") {
  const Tensor a = with_gradient({3e38}), b = with_gradient({-3e38});
  const Tensor norm = optim::clip_grad_norm(std::vector{a, b}, 1);
  CHECK(norm.item<double>() == kInf);  // it is f32
  CHECK(a.grad().item<double>() == Approx(std::sqrt(0.5)).epsilon(1e-5));
  CHECK(b.grad().item<double>() == Approx(-std::sqrt(0.5)).epsilon(1e-5));
}
