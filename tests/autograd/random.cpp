// Random tensors: distributions, reproducibility, arguments.
#include <mezzo.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments(const Tensor& x) {
  const std::vector<double> v = x.to_vector<double>();
  const double n = static_cast<double>(v.size());
  Moments m;
  m.mean = std::accumulate(v.begin(), v.end(), 0.0) / n;
  for (const double value : v) m.variance += (value - m.mean) * (value - m.mean) / n;
  return m;
}

}  // namespace

TEST_CASE("moments of the distributions, in every dtype", "[random]") {
  manual_seed(3);
  for (const DType dtype : {f16, bf16, f32, f64}) {
    INFO(name(dtype));
    const Moments uniform = moments(rand({40000}, {.dtype = dtype})),
                  normal = moments(randn({40000}, {.dtype = dtype}));
    CHECK(std::abs(uniform.mean - 0.5) < 0.01);
    CHECK(std::abs(uniform.variance - 1.0 / 12) < 0.003);
    CHECK(std::abs(normal.mean) < 0.02);
    CHECK(std::abs(normal.variance - 1) < 0.03);
    const Moments coin = moments(bernoulli_(empty({40000}, {.dtype = dtype}), 0.3));
    CHECK(std::abs(coin.mean - 0.3) < 0.01);
  }
  const Moments dice = moments(randint(1, 7, {60000}));
  CHECK(std::abs(dice.mean - 3.5) < 0.03);
  CHECK(std::abs(dice.variance - 35.0 / 12) < 0.05);
}

TEST_CASE("random numbers depend only on seed and draw", "[random]") {
  const auto draw = [](int threads) {
    set_num_threads(threads);
    manual_seed(11);
    std::vector<double> all = randn({50001}).to_vector<double>();
    const std::vector<double> second = rand({7, 5}).to_vector<double>();
    all.insert(all.end(), second.begin(), second.end());
    return all;
  };
  const int before = num_threads();
  const std::vector<double> one = draw(1);
  CHECK(draw(2) == one);
  CHECK(draw(8) == one);
  set_num_threads(before);
  manual_seed(11);
  const Tensor stored = empty({5, 7});
  randn({50001});
  uniform_(stored.t());
  CHECK(stored.t().to_vector<double>() == std::vector<double>(one.begin() + 50001, one.end()));
  manual_seed(12);
  CHECK(randn({4}).to_vector<double>() != std::vector<double>(one.begin(), one.begin() + 4));
}

TEST_CASE("uniform numbers stay below the upper bound in every dtype that can represent the gap",
          "[random]") {
  manual_seed(1);
  for (const DType dtype : {f32, f64}) {
    const std::vector<double> v =
        uniform_(empty({100000}, {.dtype = dtype}), 5, 5.000001).to_vector<double>();
    CHECK(*std::max_element(v.begin(), v.end()) <
          static_cast<double>(dtype == f32 ? 5.000001f : 5.000001));
    CHECK(*std::min_element(v.begin(), v.end()) >= 5);
  }
}

TEST_CASE("randperm is a permutation", "[random]") {
  manual_seed(2);
  std::vector<int> p = randperm(1000).to_vector<int>();
  CHECK_FALSE(std::is_sorted(p.begin(), p.end()));
  std::sort(p.begin(), p.end());
  for (int i = 0; i < 1000; ++i) REQUIRE(p[static_cast<std::size_t>(i)] == i);
  CHECK(randperm(0).numel() == 0);
}

TEST_CASE("dropout", "[random]") {
  manual_seed(4);
  const Tensor x = ones({10000}, {.requires_grad = true});
  CHECK(dropout(x, {.p = 0.3, .training = false}).is_same(x));
  CHECK(sum(dropout(x, {.p = 1})).item<double>() == 0);
  const Tensor y = dropout(x, {.p = 0.3});
  CHECK(std::abs(moments(y).mean - 1) < 0.02);
  sum(y).backward();
  CHECK(x.grad().to_vector<float>() == y.to_vector<float>());
  CHECK_THROWS_WITH_AS_TEXT(dropout(x, {.p = 1.5}), ValueError,
                            "dropout: bad probability; got 1.5, expected 0 <= p <= 1");
  CHECK_THROWS_WITH_AS_TEXT(dropout(ones({2}, {.dtype = i64})), DtypeError,
                            "dropout: not defined for integers");
}

TEST_CASE("arguments out of range do not change the generator", "[random]") {
  const Tensor x = ones({3});
  CHECK_THROWS_WITH_AS_TEXT(uniform_(x, 2, 1), ValueError, "uniform_: bounds out of order");
  CHECK_THROWS_WITH_AS_TEXT(normal_(x, 0, -1), ValueError, "normal_: bad standard deviation");
  CHECK_THROWS_WITH_AS_TEXT(bernoulli_(x, 1.1), ValueError, "bad probability");
  CHECK_THROWS_WITH_AS_TEXT(randint(3, 3, {2}), ValueError, "empty range");
  CHECK_THROWS_WITH_AS_TEXT(randint(0, 300, {2}, {.dtype = u8}), ValueError,
                            "randint: the range has numbers that u8 cannot hold; got [0, 300), "
                            "expected integers from 0 to 255");
  CHECK_THROWS_WITH_AS_TEXT(randint(0, 4096, {2}, {.dtype = f16}), ValueError, "2048");
  CHECK_THROWS_WITH_AS_TEXT(randint(0, std::int64_t{1} << 40, {2}, {.dtype = i32}), ValueError,
                            "2147483647");
  CHECK_THROWS_WITH_AS_TEXT(randint(-1, 1, {2}, {.dtype = u8}), ValueError, "u8");
  CHECK_THROWS_WITH_AS_TEXT(randint(-257, 1, {2}, {.dtype = bf16}), ValueError, "256");
  CHECK_THROWS_WITH_AS_TEXT(randint(0, (1 << 24) + 2, {2}, {.dtype = f32}), ValueError, "16777216");
  CHECK_THROWS_WITH_AS_TEXT(randint(0, 3, {2}, {.dtype = boolean}), ValueError, "bool");
  CHECK_THROWS_WITH_AS_TEXT(randint_(zeros({2}, {.dtype = f16}), 0, 2050), ValueError, "f16");
  CHECK_THROWS_WITH_AS_TEXT(randperm(-1), ValueError, "negative length");
  CHECK_THROWS_WITH_AS_TEXT(uniform_(ones({2}, {.dtype = i32})), DtypeError,
                            "not defined for integers");
  CHECK(x.to_vector<double>() == std::vector<double>{1, 1, 1});
}

TEST_CASE("randint fills the whole range of integers that a dtype holds", "[random]") {
  for (const auto& [dtype, low, high] :
       {std::tuple{u8, 0, 256}, {f16, -2048, 2049}, {bf16, -256, 257}, {boolean, 0, 2}}) {
    const Tensor x = randint(low, high, {100000}, {.dtype = dtype}).to(f64);
    CHECK(amin(x).item<int>() == low);
    CHECK(amax(x).item<int>() == high - 1);
    CHECK(equal(x, floor(x)));
  }
}

TEST_CASE("arange, linspace, eye", "[create]") {
  CHECK(arange(3.0).to_vector<double>() == std::vector<double>{0, 1, 2});
  CHECK(arange(5.0, 0, -2).to_vector<double>() == std::vector<double>{5, 3, 1});
  CHECK_THROWS_WITH_AS_TEXT(arange(0.0, 1, -1), ValueError, "does not lead to the end");
  CHECK(linspace(0, 1, 5, {.dtype = f64}).to_vector<double>() ==
        std::vector<double>{0, 0.25, 0.5, 0.75, 1});
  CHECK(eye(2, 3).to_vector<int>() == std::vector<int>{1, 0, 0, 0, 1, 0});
  CHECK(eye(0).numel() == 0);
}
