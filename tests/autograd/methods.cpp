// Methods of Tensor give the same as the functions of their names; conversions; creation from
// vectors and nested braces.
#include <mezzo.h>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

bool same(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         allclose(a, b, {.rtol = 0, .atol = 0, .equal_nan = true});
}

bool same(const ValuesAndIndices& a, const ValuesAndIndices& b) {
  return same(a.values, b.values) && same(a.indices, b.indices);
}

}  // namespace

TEST_CASE("methods give what the functions give", "[methods]") {
  manual_seed(1);
  const Tensor x = randn({3, 4}), square_matrix = randn({4, 4});
  const Tensor positive = rand({3, 4}) + 0.1;
  CHECK(same(x.sum(), sum(x)));
  CHECK(same(x.sum(-1, {.keepdim = true}), sum(x, -1, {.keepdim = true})));
  CHECK(same(x.sum({0, 1}, {.dtype = f64}), sum(x, {0, 1}, {.dtype = f64})));
  CHECK(same(x.mean(0), mean(x, 0)));
  CHECK(same(x.prod(), prod(x)));
  CHECK(same(x.prod(1), prod(x, 1)));
  CHECK(same(x.std(), mezzo::std(x)));
  CHECK(same(x.var(1, {.correction = 0}), var(x, 1, {.correction = 0})));
  CHECK(same(x.norm(1, {.p = 1}), norm(x, 1, {.p = 1})));
  CHECK(same(x.logsumexp(1), logsumexp(x, 1)));
  CHECK(same(x.cumsum(1), cumsum(x, 1)));
  CHECK(same(x.max(), max(x)));
  CHECK(same(x.max(1), max(x, 1)));
  CHECK(same(x.min(), min(x)));
  CHECK(same(x.min(0, {.keepdim = true}), min(x, 0, {.keepdim = true})));
  CHECK(same(x.amax(1), amax(x, 1)));
  CHECK(same(x.amin(), amin(x)));
  CHECK(same(x.argmax(), argmax(x)));
  CHECK(same(x.argmax(-1), argmax(x, {.dim = -1})));
  CHECK(same(x.argmin(0, {.keepdim = true}), argmin(x, {.dim = 0, .keepdim = true})));
  CHECK(same((x > 0).all(1), all(x > 0, 1)));
  CHECK(same((x > 0).any(), any(x > 0)));
  CHECK(same(x.abs(), abs(x)));
  CHECK(same(x.ceil(), ceil(x)));
  CHECK(same(x.cos(), cos(x)));
  CHECK(same(x.exp(), exp(x)));
  CHECK(same(x.floor(), floor(x)));
  CHECK(same(x.isfinite(), isfinite(x)));
  CHECK(same(x.isinf(), isinf(x)));
  CHECK(same(x.isnan(), isnan(x)));
  CHECK(same(positive.log(), log(positive)));
  CHECK(same(x.relu(), relu(x)));
  CHECK(same(x.round(), round(x)));
  CHECK(same(positive.rsqrt(), rsqrt(positive)));
  CHECK(same(x.sigmoid(), sigmoid(x)));
  CHECK(same(x.sin(), sin(x)));
  CHECK(same(positive.sqrt(), sqrt(positive)));
  CHECK(same(x.square(), square(x)));
  CHECK(same(x.tanh(), tanh(x)));
  CHECK(same(x.clamp(-0.5, 0.5), clamp(x, {.min = -0.5, .max = 0.5})));
  CHECK(same(x.clamp({}, 0.5), clamp(x, {.max = 0.5})));
  CHECK(same(x.masked_fill(x > 0, 7), masked_fill(x, x > 0, 7)));
  CHECK(same(positive.pow(0.5), pow(positive, 0.5)));
  CHECK(same(positive.pow(x), pow(positive, x)));
  CHECK(same(x.flip(1), flip(x, 1)));
  const Tensor index = tensor({{0, 1}, {2, 0}, {3, 3}}, {.dtype = i64});
  CHECK(same(x.gather(1, index), gather(x, 1, index)));
  CHECK(same(x.index_select(1, index[0]), index_select(x, 1, index[0])));
  CHECK(same(x.log_softmax(1), log_softmax(x, 1)));
  CHECK(same(x.masked_select(x > 0), masked_select(x, x > 0)));
  CHECK(same((x > 0).nonzero(), nonzero(x > 0)));
  CHECK(same(x.repeat({2, 1}), repeat(x, {2, 1})));
  CHECK(same(x.softmax(0), softmax(x, 0)));
  CHECK(same(x.topk(2), topk(x, 2)));
  CHECK(same(x.topk(2, 0), topk(x, 2, {.dim = 0})));
  CHECK(same(square_matrix.tril(1), tril(square_matrix, 1)));
  CHECK(same(square_matrix.triu(), triu(square_matrix)));
  CHECK(same(x.matmul(square_matrix), matmul(x, square_matrix)));
  CHECK(same(x.mm(square_matrix), mm(x, square_matrix)));
  CHECK(same(x[None].bmm(square_matrix[None]), bmm(x[None], square_matrix[None])));
  CHECK(same(x[0].dot(x[1]), dot(x[0], x[1])));
  CHECK(same(x.T(), x.t()));
  CHECK(same(x[None].mT(), x.t()[None]));
}

TEST_CASE("in-place methods write to the tensor", "[methods]") {
  const Tensor x = tensor({1.0, 2.0, 3.0});
  CHECK(x.add_(1).mul_(2).is_same(x));
  CHECK(x.to_vector<double>() == std::vector<double>{4, 6, 8});
  x.sub_(x / 2).div_(2).add_(tensor({1.0, 0.0, -9.0})).relu_().clamp_(1.0, 1.75);
  CHECK(x.to_vector<double>() == std::vector<double>{1.75, 1.5, 1});
  x.masked_fill_(x > 1.6, -1);
  CHECK(x.to_vector<double>() == std::vector<double>{-1, 1.5, 1});
  const Tensor whole = tensor({5, 6}, {.dtype = i64});
  CHECK(whole.add_(2).to_vector<double>() == std::vector<double>{7, 8});
  manual_seed(2);
  const Tensor drawn = zeros({1000}).uniform_(2, 3);
  CHECK(drawn.min().item() >= 2);
  CHECK(drawn.max().item() < 3);
  CHECK(std::abs(drawn.normal_(5, 0.1).mean().item() - 5) < 0.02);
}

TEST_CASE("% is the remainder with the sign of the divisor", "[methods]") {
  const Tensor x = tensor({-3, -2, 5, 6}, {.dtype = i64});
  CHECK((x % 2).to_vector<double>() == std::vector<double>{1, 0, 1, 0});
  CHECK((7 % tensor({4, -4}, {.dtype = i64})).to_vector<double>() == std::vector<double>{3, -1});
  const Tensor y = tensor({5.5, -5.5});
  y %= 2;
  CHECK(y.to_vector<double>() == std::vector<double>{1.5, 0.5});
}

TEST_CASE("conversions by name, and to a device with a dtype", "[methods]") {
  const Tensor x = tensor({1.0, 65504.0 * 4});
  CHECK(x.half().dtype() == f16);
  CHECK(x.bfloat16().dtype() == bf16);
  CHECK(x.to(cpu, f16).dtype() == f16);
  CHECK(x.to(cpu, f32).is_same(x));
  CHECK(x.half().isinf().to_vector<double>() == std::vector<double>{0, 1});
}

TEST_CASE("tensors from vectors and nested braces", "[methods]") {
  const std::vector<float> floats{0.5F, 1.5F};
  const std::vector<std::int64_t> large{(std::int64_t{1} << 60) + 1};
  CHECK(tensor(floats).to_vector<double>() == std::vector<double>{0.5, 1.5});
  CHECK(tensor(large, {.dtype = i64}).item<std::int64_t>() == large[0]);
  CHECK(tensor(std::vector<int>{1, 2, 3, 4}, {2, 2}).shape() == Shape{2, 2});
  CHECK(same(tensor(large), tensor(large, {.dtype = i64})));
  const Tensor matrix = tensor({{1., 2., 3.}, {4., 5., 6.}});
  CHECK(matrix.shape() == Shape{2, 3});
  CHECK(matrix.dtype() == f32);
  CHECK(matrix.to_vector<double>() == std::vector<double>{1, 2, 3, 4, 5, 6});
  CHECK(tensor({{0.5}}).shape() == Shape{1, 1});
  CHECK(tensor({{1, 2}, {3, 4}}).dtype() == i64);
  const Tensor cube = tensor({{{1, 2}, {3, 4}, {5, 6}}}, {.dtype = i64});
  CHECK(cube.shape() == Shape{1, 3, 2});
  CHECK(cube.dtype() == i64);
  CHECK_THROWS_WITH_AS_TEXT((tensor({{1., 2.}, {3.}})), ShapeError, "differ in length");
  CHECK_THROWS_WITH_AS_TEXT((tensor({{{1.}, {2.}}, {{3.}}})), ShapeError, "differ in length");
}

TEST_CASE("creation with a dtype instead of options", "[methods]") {
  CHECK(zeros({2, 3}, f16).dtype() == f16);
  CHECK(ones({2}, i64).sum().item<std::int64_t>() == 2);
  CHECK(full({2}, 0.5, f64).dtype() == f64);
  CHECK(empty({2}, bf16, cpu).dtype() == bf16);
  CHECK(rand({2}, f64).dtype() == f64);
  CHECK(randn({2}, f16).dtype() == f16);
  CHECK(zeros({2}, {}).dtype() == f32);
}

TEST_CASE("allclose compares as PyTorch does", "[methods]") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  CHECK(allclose(tensor({1.0, 2.0}), tensor({1.0, 2.0 + 1e-6})));
  CHECK_FALSE(allclose(tensor({1.0}), tensor({1.001})));
  CHECK(allclose(tensor({1.0}), tensor({1.1}), {.rtol = 0.1}));
  CHECK(allclose(tensor({0.0}), tensor({1e-9})));
  // The tolerance is relative to the second operand.
  CHECK(allclose(tensor({10.0}, {.dtype = f64}), tensor({11.0}, {.dtype = f64}), {.rtol = 0.095}));
  CHECK_FALSE(
      allclose(tensor({11.0}, {.dtype = f64}), tensor({10.0}, {.dtype = f64}), {.rtol = 0.095}));
  CHECK(isclose(tensor({inf, inf, -inf, nan}), tensor({inf, -inf, 1.0, nan})).to_vector<double>() ==
        std::vector<double>{1, 0, 0, 0});
  CHECK(allclose(tensor({nan}), tensor({nan}), {.equal_nan = true}));
  CHECK(isclose(ones({2, 1}), ones({3})).shape() == Shape{2, 3});
  CHECK(allclose(zeros({0}), zeros({0})));
  CHECK(allclose(tensor({1, 2}, {.dtype = i64}), tensor({1, 2}, {.dtype = i64})));
  CHECK_THROWS_WITH_AS_TEXT(allclose(zeros({1}), zeros({1}, f16)), DtypeError, "b.dtype()");
  CHECK_THROWS_WITH_AS_TEXT(allclose(zeros({1}), zeros({1}), {.rtol = -1}), ValueError, "rtol -1");
  CHECK_THROWS_AS(allclose(zeros({2}), zeros({3})), ShapeError);
}
