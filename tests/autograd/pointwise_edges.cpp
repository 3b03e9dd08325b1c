// Elementwise ops where the generated tests do not reach: kinks, ties, nan and infinities,
// integers, scalar operands, in-place forms, rejected arguments.
#include <cmath>
#include <limits>

#include <mezzo.h>

#include "../support/throws.h"
#include "support.h"

using namespace mezzo;

namespace {

using Values = std::vector<double>;

/** Checks that the gradient of sum(f(x)) at `at` is `expected`, by the fused kernels and by the
 *  composite gradient. */
template <class F> void check_gradient(F&& f, const Values& at, const Values& expected) {
  for (const bool create_graph : {false, true}) {
    const Tensor x = tensor(at, {.dtype = f64}).requires_grad_();
    const Tensor g = grad(sum(f(x)), x, {.create_graph = create_graph});
    INFO("create_graph " << create_graph);
    REQUIRE(g.numel() == static_cast<std::int64_t>(expected.size()));
    for (std::size_t i = 0; i < expected.size(); ++i) CHECK(values(g)[i] == Approx(expected[i]));
  }
}

}  // namespace

TEST_CASE("gradients at kinks", "[pointwise]") {
  check_gradient([](const Tensor& x) { return relu(x); }, {-1, 0, 1}, {0, 0, 1});
  check_gradient([](const Tensor& x) { return relu6(x); }, {-1, 0, 3, 6, 7}, {0, 0, 1, 0, 0});
  check_gradient([](const Tensor& x) { return hardtanh(x); }, {-1, 0, 1}, {0, 1, 0});
  check_gradient([](const Tensor& x) { return clamp(x, {.min = -1, .max = 1}); }, {-2, -1, 0, 1, 2},
                 {0, 0, 1, 0, 0});
  check_gradient([](const Tensor& x) { return abs(x); }, {-2, 0, 2}, {-1, 0, 1});
  check_gradient([](const Tensor& x) { return leaky_relu(x); }, {0, 1}, {0.01, 1});
  check_gradient([](const Tensor& x) { return elu(x, {.alpha = 0.5}); }, {0, 1, 1000}, {0.5, 1, 1});
  check_gradient([](const Tensor& x) { return celu(x); }, {0, 1, 1000}, {1, 1, 1});
  check_gradient([](const Tensor& x) { return selu(x); }, {0, 1},
                 {1.7580993408473766, 1.0507009873554805});
  check_gradient([](const Tensor& x) { return hardsigmoid(x); }, {-3, 0, 3}, {0, 1.0 / 6, 0});
  check_gradient([](const Tensor& x) { return hardswish(x); }, {-3, 0, 3}, {0, 0.5, 1});
  check_gradient([](const Tensor& x) { return softshrink(x); }, {-0.5, 0.5, 1}, {0, 0, 1});
  check_gradient([](const Tensor& x) { return softplus(x); }, {1000, -1000}, {1, 0});
  check_gradient([](const Tensor& x) { return logit(x, 0.25); }, {0.1, 0.5}, {0, 4});
  check_gradient([](const Tensor& x) { return floor(x) + round(x) + sign(x); }, {0.5, 2}, {0, 0});
}

TEST_CASE("maximum and minimum share gradients at ties; clamp limits get them where they apply",
          "[pointwise]") {
  const Tensor same = tensor({1., 2});
  check_gradient([&](const Tensor& x) { return maximum(x, same); }, {1, 3}, {0.5, 1});
  check_gradient([&](const Tensor& x) { return minimum(x, same); }, {1, 3}, {0.5, 0});
  const Tensor x = tensor({-2, 0, 2, 0}, {.dtype = f64});
  check_gradient([&](const Tensor& low) { return clamp(x, low, Tensor{}); }, {-1, -1, -1, 1},
                 {1, 0, 0, 1});
  check_gradient([&](const Tensor& high) { return clamp(x, operand(1), high); }, {0, 0, 1, 3},
                 {1, 1, 1, 0});
  CHECK(values(clamp(x, {.min = 1, .max = -1})) == Values{-1, -1, -1, -1});
}

TEST_CASE("powers at zero", "[pointwise]") {
  check_gradient([](const Tensor& x) { return pow(x, 0.0); }, {0, 2}, {0, 0});
  check_gradient([](const Tensor& x) { return pow(x, 2); }, {0, 3}, {0, 6});
  check_gradient([](const Tensor& e) { return pow(0.0, e); }, {0, 2}, {0, 0});
  CHECK(values(pow(tensor({0, kNan, kInf}), 0)) == Values{1, 1, 1});
  CHECK(std::isnan(pow(tensor(-2.0), 0.3).item<double>()));
  CHECK(values(pow(tensor({kInf, -kInf, 4}), 0.5)) == Values{kInf, kInf, 2});
  const Tensor zero = tensor({0}, {.dtype = f64}).requires_grad_();
  const Tensor first = grad(pow(zero, tensor({0}, {.dtype = f64})), zero, {.create_graph = true});
  CHECK(grad(first, zero).item<double>() == 0);
}

TEST_CASE("nan propagates, and an unselected branch does not affect the gradient", "[pointwise]") {
  const Tensor x = tensor({kNan, 1});
  for (const Tensor& y : {relu(x), relu6(x), clamp(x, {.min = 0}), hardtanh(x),
                          maximum(x, operand(0)), minimum(operand(0), x), sigmoid(x), elu(x),
                          gelu(x), mish(x), softshrink(x), hardshrink(x), threshold(x, 0, 1)})
    CHECK(std::isnan(values(y)[0]));
  check_gradient([](const Tensor& t) { return where(t > 0, log(t), t); }, {-1, 2}, {1, 0.5});
  check_gradient([](const Tensor& t) { return atan2(t, operand(0.0)); }, {0}, {0});
  CHECK(values(ne(x, x)) == Values{1, 0});
  CHECK_FALSE(equal(x, x));
  CHECK(equal(tensor({1., 2}), tensor({1, 2}, {.dtype = i64})));
  CHECK_FALSE(equal(tensor({1., 2}), tensor({1.})));
}

TEST_CASE("activations of large arguments do not overflow", "[pointwise]") {
  const Tensor ends = tensor({-200., 200});
  CHECK(values(sigmoid(ends)) == Values{0, 1});
  CHECK(values(logsigmoid(ends)) == Values{-200, 0});
  CHECK(values(silu(ends)) == Values{0, 200});
  CHECK(values(mish(ends)) == Values{0, 200});
  CHECK(values(softplus(ends)) == Values{0, 200});
  CHECK(values(gelu(ends, {.approximate = GeluApproximation::tanh})) == Values{0, 200});
}

TEST_CASE("integers", "[pointwise]") {
  const Tensor a = tensor({7, -7}, {.dtype = i64}), b = tensor({2, 2}, {.dtype = i32});
  CHECK(floor_divide(a, b).dtype() == i64);
  CHECK(values(floor_divide(a, b)) == Values{3, -4});
  CHECK(values(div(a, b, {.rounding = Rounding::trunc})) == Values{3, -3});
  CHECK(values(remainder(a, b)) == Values{1, 1});
  CHECK(values(fmod(a, b)) == Values{1, -1});
  CHECK(div(a, b).dtype() == f32);
  CHECK(values(pow(a, 3)) == Values{343, -343});
  CHECK(pow(a, 3).dtype() == i64);
  const Tensor lowest = full({1}, 0, {.dtype = i64});
  lowest.data<std::int64_t>()[0] = std::numeric_limits<std::int64_t>::min();
  CHECK(equal(floor_divide(lowest, -1), lowest));
  CHECK(values(remainder(lowest, -1)) == Values{0});
  CHECK(values(bitwise_not(tensor({5}, {.dtype = u8}))) == Values{250});
  CHECK(values(~tensor({1, 0}, {.dtype = boolean})) == Values{0, 1});
  CHECK(values(round(tensor({0.5, 1.5, 2.5, -0.5}))) == Values{0, 2, 2, 0});
  CHECK_THROWS_WITH_AS_TEXT(remainder(a, tensor({1, 0}, {.dtype = i64})), ValueError,
                            "remainder: integer division by zero; got 0 at element 1");
  CHECK_THROWS_WITH_AS_TEXT(pow(a, -1), ValueError, "pow: integers to a negative integer power");
  CHECK_THROWS_WITH_AS_TEXT(add(a, b, {.alpha = 0.5}), ValueError, "alpha is not an integer");
  CHECK_THROWS_WITH_AS_TEXT(sub(ones({1}, {.dtype = boolean}), ones({1}, {.dtype = boolean})),
                            DtypeError, "not defined for bool");
  CHECK_THROWS_WITH_AS_TEXT(addcdiv(a, a, a), DtypeError, "addcdiv: not defined for i64");
  CHECK_THROWS_WITH_AS_TEXT(tensor({1.0}) & tensor({1.0}), DtypeError, "bitwise_and");
}

TEST_CASE("result dtypes follow dtype category and number of dimensions", "[pointwise]") {
  const Tensor h = ones({2}, {.dtype = f16}), b = ones({2}, {.dtype = bf16}),
               i = ones({2}, {.dtype = i64});
  CHECK((h * 2.5).dtype() == f16);
  CHECK((h * tensor(2.5)).dtype() == f16);
  CHECK((i * 2.5).dtype() == f32);
  CHECK((i * tensor(2.5, {.dtype = f16})).dtype() == f16);
  CHECK((h + b).dtype() == f32);
  CHECK((h + i).dtype() == f16);
  CHECK(exp(i).dtype() == f32);
  CHECK((1.0 / h).dtype() == f16);
  CHECK(pow(h, ones({2}, {.dtype = f64})).dtype() == f64);
  CHECK(where(i > 0, h, 1.0).dtype() == f16);
}

TEST_CASE("in place", "[pointwise]") {
  const Tensor x = tensor({1, 4}, {.dtype = f16});
  CHECK(sqrt_(x).is_same(x));
  CHECK(values(x) == Values{1, 2});
  CHECK(values(mul_(x, tensor({2.5}, {.dtype = f64}))) == Values{2.5, 5});
  CHECK(x.dtype() == f16);
  CHECK(values(gt_(x, 3)) == Values{0, 1});
  CHECK(values(masked_fill_(x, tensor({1, 0}, {.dtype = boolean}), 7)) == Values{7, 1});
  const Tensor n = tensor({3, 9}, {.dtype = i64});
  CHECK_THROWS_WITH_AS_TEXT(div_(n, 2), DtypeError,
                            "div_: a floating result cannot be stored in an integer tensor");
  CHECK_THROWS_WITH_AS_TEXT(floor_divide_(n, 0), ValueError, "division by zero");
  CHECK(values(n) == Values{3, 9});
  CHECK_THROWS_WITH_AS_TEXT(add_(tensor({1.}), ones({3})), ShapeError, "add_");
  CHECK_THROWS_WITH_AS_TEXT(relu_(ones({2}).requires_grad_()), StateError, "relu_");
  // The gradient is that of the out-of-place form; the result of a comparison is a constant.
  const Tensor w = tensor({2., -3}).requires_grad_();
  const Tensor y = w * 1.0;
  relu_(mul_(y, 3));
  CHECK(values(grad(sum(y), w)) == Values{3, 0});
  const Tensor z = w * 1.0;
  gt_(z, 0);
  CHECK(values(grad(sum(z * w), w)) == Values{1, 0});
}

TEST_CASE("attributes out of range are rejected", "[pointwise]") {
  const Tensor x = ones({2});
  CHECK_THROWS_WITH_AS_TEXT(clamp(x, ClampOptions{}), ValueError, "clamp: no limit is given");
  CHECK_THROWS_WITH_AS_TEXT(clamp(x, zeros({2}, {.dtype = f64}), Tensor{}), DtypeError,
                            "one floating dtype");
  CHECK_THROWS_WITH_AS_TEXT(hardtanh(x, {.min = 2}), ValueError, "hardtanh");
  CHECK_THROWS_WITH_AS_TEXT(softplus(x, {.beta = 0}), ValueError, "softplus");
  CHECK_THROWS_WITH_AS_TEXT(softshrink(x, {.lambda = -1}), ValueError, "softshrink");
  CHECK_THROWS_WITH_AS_TEXT(logit(x, 0.7), ValueError, "logit");
  CHECK_THROWS_WITH_AS_TEXT(glu(ones({3})), ShapeError, "glu");
  CHECK_THROWS_WITH_AS_TEXT(masked_fill(x, x, 1), DtypeError, "the mask must be bool");
  CHECK_THROWS_WITH_AS_TEXT(masked_fill(x, x > 0, x), ShapeError, "0-dim value");
  CHECK_THROWS_WITH_AS_TEXT(
      add(x, ones({3})), ShapeError,
      "add: shapes do not broadcast; got f32[2]@cpu and f32[3]@cpu, expected equal "
      "sizes or 1 in dimension -1");
}
