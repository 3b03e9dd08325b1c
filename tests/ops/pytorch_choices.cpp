// PyTorch 2.15's behaviour where mathematics leaves it open: kinks, nan, bools and integers. The
// expected values are PyTorch's, except where the function's comment documents a difference.
#include <cmath>

#include "../support/catch.h"
#include "../support/throws.h"
#include "edges.h"

using namespace mezzo;
using cases::test_device;
using edges::made;
using edges::Values;
using edges::values;
using testing::kInf;
using testing::kNan;

namespace {

void check_values(const Tensor& x, const Values& expected) {
  const Values got = values(x);
  REQUIRE(got.size() == expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("element " << i << " is " << got[i] << ", expected " << expected[i]);
    CHECK((got[i] == expected[i] || (std::isnan(got[i]) && std::isnan(expected[i]))));
  }
}

/** Checks the gradients of sum(f(x)) by the fused kernels and with a graph. */
template <class F>
void check_gradients(F&& f, const std::vector<Values>& at, const std::vector<Values>& expected) {
  for (const DType dtype : {f32, f16})
    for (const bool create_graph : {false, true}) {
      INFO(name(dtype) << ", create_graph " << create_graph);
      std::vector<Tensor> x;
      for (const Values& v : at) x.push_back(made(v, dtype).requires_grad_());
      const std::vector<Tensor> g = grad({sum(f(x))}, x, {.create_graph = create_graph});
      for (std::size_t i = 0; i < g.size(); ++i) check_values(g[i], expected[i]);
    }
}

}  // namespace

TEST_CASE("the gradient of clamp is 0 at a number limit and shared with a tensor limit",
          "[ops][choices]") {
  const Values at{-2, -1, 0, 1, 2, kNan}, low(6, -1), high(6, 1);
  using List = const std::vector<Tensor>&;
  check_gradients([](List x) { return clamp(x[0], {.min = -1, .max = 1}); }, {at},
                  {{0, 0, 1, 0, 0, 0}});
  check_gradients([](List x) { return clamp(x[0], {.min = -1}); }, {at}, {{0, 0, 1, 1, 1, 0}});
  check_gradients([](List x) { return clamp(x[0], {.max = 1}); }, {at}, {{1, 1, 1, 0, 0, 0}});
  check_gradients([](List x) { return clamp(x[0], {.min = 1, .max = -1}); }, {at},
                  {{0, 0, 0, 0, 0, 0}});
  check_gradients([](List x) { return clamp(x[0], {.max = 1}); }, {{-kInf, kInf}}, {{1, 0}});
  const Values finite{-2, -1, 0, 1, 2}, lows(5, -1), highs(5, 1);
  check_gradients([](List x) { return clamp(x[0], x[1], x[2]); }, {finite, lows, highs},
                  {{0, 0.5, 1, 0.5, 0}, {1, 0.5, 0, 0, 0}, {0, 0, 0, 0.5, 1}});
  check_gradients([](List x) { return clamp(x[0], x[1], Tensor{}); }, {finite, lows},
                  {{0, 0.5, 1, 1, 1}, {1, 0.5, 0, 0, 0}});
  check_gradients([](List x) { return clamp(x[0], x[1], x[2]); }, {finite, highs, lows},
                  {{0, 0, 0, 0, 0}, {0, 0, 0, 0, 0}, {1, 1, 1, 1, 1}});
  check_gradients([](List x) { return clamp(x[0], x[1], x[2]); },
                  {{-2, 1, 2}, {1, 1, 1}, {1, 1, 1}}, {{0, 1, 0}, {1, 0, 0}, {0, 0, 1}});
}

TEST_CASE("one-sided limits pass the gradient at nan", "[ops][choices]") {
  using List = const std::vector<Tensor>&;
  const Values at{kNan, -1, 0, 1, 6, 7};
  check_gradients([](List x) { return relu(x[0]); }, {at}, {{1, 0, 0, 1, 1, 1}});
  check_gradients([](List x) { return relu6(x[0]); }, {at}, {{1, 0, 0, 1, 0, 0}});
  check_gradients([](List x) { return hardtanh(x[0]); }, {at}, {{1, 0, 1, 0, 0, 0}});
  check_gradients([](List x) { return threshold(x[0], 0, 1); }, {at}, {{1, 0, 0, 1, 1, 1}});
}

TEST_CASE("sign propagates nan", "[ops][choices]") {
  check_values(sign(made({kNan, -3, 0, 2})), {kNan, -1, 0, 1});
}

TEST_CASE("numbers out of an integer dtype's range saturate", "[ops][choices]") {
  check_values(made({300, -1, 256, 1e10, kNan, kInf, -kInf, 2.9}).to(u8),
               {255, 0, 255, 255, 0, 255, 0, 2});
  check_values(made({300, -1, 256}, i64).to(u8), {44, 255, 0});
}

TEST_CASE("non-finite positions are outside the image", "[ops][choices]") {
  const Tensor x = made({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 1, 3, 3}, f32);
  for (const GridSampleMode mode :
       {GridSampleMode::bilinear, GridSampleMode::nearest, GridSampleMode::bicubic})
    for (const GridSamplePadding padding :
         {GridSamplePadding::zeros, GridSamplePadding::border, GridSamplePadding::reflection}) {
      const Tensor image = x.clone().requires_grad_();
      const Tensor grid =
          made({kNan, 0, 0, kNan, kInf, 0, -kInf, 0}, {1, 2, 2, 2}, f32).requires_grad_();
      const Tensor y = grid_sample(image, grid, {.mode = mode, .padding_mode = padding});
      const std::vector<Tensor> g = grad({sum(y)}, {image, grid});
      for (const Tensor& t : {y, g[0], g[1]}) CHECK(all(isfinite(t)).item<bool>());
      if (padding == GridSamplePadding::zeros) check_values(y, {0, 0, 0, 0});
    }
}

TEST_CASE("products and sums of bools are bools", "[ops][choices]") {
  const Tensor a = made({1, 1, 0, 0}, boolean), b = made({1, 0, 1, 0}, boolean);
  CHECK((a * b).dtype() == boolean);
  CHECK((a + b).dtype() == boolean);
  check_values(a * b, {1, 0, 0, 0});
  check_values(a + b, {1, 1, 1, 0});
  check_values(add(a, b, {.alpha = 0}), {1, 1, 0, 0});
  check_values(mul_(a.clone(), b), {1, 0, 0, 0});
  check_values(add_(a.clone(), b), {1, 1, 1, 0});
  CHECK_THROWS_WITH_AS_TEXT(add(a, b, {.alpha = -1}), ValueError, "add: alpha is not a bool");
  CHECK_THROWS_AS(a - b, DtypeError);
}

TEST_CASE("integers have matrix products, modulo 2^bits", "[ops][choices]") {
  for (const DType dtype : {u8, i32, i64}) {
    INFO(name(dtype));
    const Tensor a = made({1, 2, 3, 4}, {2, 2}, dtype), v = a.select(0, 0);
    const auto check = [&](const Tensor& y, const Values& expected) {
      CHECK(y.dtype() == dtype);
      check_values(y, expected);
    };
    check(mm(a, a), {7, 10, 15, 22});
    check(matmul(a, a.t()), {5, 11, 11, 25});
    check(bmm(a.unsqueeze(0), a.unsqueeze(0)), {7, 10, 15, 22});
    check(matmul(a.expand({3, 2, 2}), v), {5, 11, 5, 11, 5, 11});
    check(mv(a, v), {5, 11});
    check(dot(v, v), {5});
    check(vecdot(a, a), {5, 25});
    check(linear(a, a, v), {6, 13, 12, 27});
    check(addmm(a, a, a, {.beta = 2, .alpha = 3}), {23, 34, 51, 74});
    check(addmm(a, a, a, {.beta = 0}), {7, 10, 15, 22});
    check(addmv(v, a, v), {6, 13});
    check(addr(a, v, v), {2, 4, 5, 8});
    check(baddbmm(a, a.unsqueeze(0), a.unsqueeze(0)), {8, 12, 18, 26});
    check(addbmm(a, a.expand({2, 2, 2}), a.expand({2, 2, 2})), {15, 22, 33, 48});
    check(einsum("ij,jk->ik", {a, a}), {7, 10, 15, 22});
    check(einsum("ij,ij->i", {a, a}), {5, 25});
    check(tensordot(a, a, 1), {7, 10, 15, 22});
    check(multi_dot({a, a, a}), {37, 54, 81, 118});
    check(bilinear(a, a, a.unsqueeze(0)), {27, 133});
    check(mm(zeros({2, 0}, {.dtype = dtype, .device = test_device()}),
             zeros({0, 2}, {.dtype = dtype, .device = test_device()})),
          {0, 0, 0, 0});
    CHECK_THROWS_WITH_AS_TEXT(addmm(a, a, a, {.alpha = 0.5}), ValueError,
                              "addmm: a factor is not an integer");
    CHECK_THROWS_AS(mm(a, a.to(f32)), DtypeError);
  }
  check_values(mm(made({200, 1}, {1, 2}, u8), made({2, 1}, {2, 1}, u8)), {145});
  const Tensor large = made({0x1p62, 1}, {1, 2}, i64), four = made({4, 1}, {2, 1}, i64);
  check_values(mm(large, four), {1});
  check_values(dot(large.flatten(), four.flatten()), {1});
  const Tensor a = made({1, 2, 3, 4}, {2, 2}, i64);
  CHECK_THROWS_WITH_AS_TEXT(mm(a, a.to(i32)), DtypeError, "use x.to(i64)");
  CHECK_THROWS_WITH_AS_TEXT(mm(a != 0, a != 0), DtypeError, "mm: not defined for bool");
  // Larger than a tile and than a block of the inner dimension.
  const Tensor left = randint(-9, 9, {70, 700}, {.dtype = i64}).to(test_device()),
               right = randint(-9, 9, {700, 65}, {.dtype = i64}).to(test_device());
  CHECK(equal(mm(left, right).to(cpu).to(f64), mm(left.to(cpu).to(f64), right.to(cpu).to(f64))));
}

TEST_CASE("logsumexp of integers equals that of their f32 values", "[ops][choices]") {
  for (const DType dtype : {boolean, u8, i32, i64}) {
    const Tensor x = made({0, 1, 1, 0, 0, 1}, {2, 3}, dtype);
    CHECK(logsumexp(x, 1).dtype() == f32);
    CHECK(equal(logsumexp(x, 1), logsumexp(x.to(f32), 1)));
  }
}

TEST_CASE("groups of query heads share key and value heads", "[ops][choices]") {
  manual_seed(3);
  const auto drawn = [](const Shape& shape, DType dtype) {
    return randn(shape).to(dtype).to(test_device()).requires_grad_();
  };
  /** Repeats each head `group` times in succession. */
  const auto repeated = [](const Tensor& x, std::int64_t group) {
    Shape shape = x.shape();
    shape.insert(2, group);
    return x.unsqueeze(2).expand(shape).flatten(1, 2);
  };
  for (const DType dtype : {f32, f16})
    for (const int kind : {0, 1, 2, 3, 4}) {
      INFO(name(dtype) << ", kind " << kind);
      const Tensor q = drawn({2, 6, 5, 8}, dtype), k = drawn({2, 2, 7, 8}, dtype),
                   v = drawn({2, 2, 7, 4}, dtype);
      AttentionOptions options{.is_causal = kind == 1};
      if (kind == 2) options.mask = drawn({2, 6, 5, 7}, f32).detach() > -0.5;
      if (kind == 3) options.mask = drawn({6, 5, 7}, dtype);
      if (kind == 4) options.mask = drawn({2, 1, 5, 7}, dtype);
      std::vector<Tensor> wanted{q, k, v};
      if (kind > 2) wanted.push_back(options.mask);
      const Tensor expected =
          scaled_dot_product_attention(q, repeated(k, 3), repeated(v, 3), options);
      options.enable_gqa = true;
      const Tensor got = scaled_dot_product_attention(q, k, v, options);
      CHECK(equal(got, expected));
      const Tensor g = randn_like(got.detach());
      const std::vector<Tensor> a = grad({got}, wanted, {}, {g}),
                                b = grad({expected}, wanted, {}, {g});
      for (std::size_t i = 0; i < a.size(); ++i) {
        CHECK(a[i].shape() == wanted[i].shape());
        CHECK(amax(abs(a[i].to(f64) - b[i].to(f64))).item<double>() < (dtype == f32 ? 1e-5 : 1e-2));
      }
    }
  const Tensor q = drawn({1, 4, 3, 8}, f32), k = drawn({1, 3, 3, 8}, f32);
  CHECK_THROWS_WITH_AS_TEXT(scaled_dot_product_attention(q, k, k, {.enable_gqa = true}), ShapeError,
                            "the heads do not form groups");
  // The dropout mask is indexed as without groups.
  const Tensor shared = drawn({1, 2, 3, 8}, f32);
  manual_seed(5);
  const Tensor got =
      scaled_dot_product_attention(q, shared, shared, {.dropout_p = 0.5, .enable_gqa = true});
  manual_seed(5);
  const Tensor both = repeated(shared, 2);
  CHECK(equal(got, scaled_dot_product_attention(q, both, both, {.dropout_p = 0.5})));
}
