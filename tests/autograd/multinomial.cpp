// multinomial: frequencies, classes that are never drawn, refused weights.
#include <mezzo.h>

#include <cmath>
#include <set>

#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;

namespace {

/** Returns the share of draws of each class. */
std::vector<double> shares(const Tensor& draws, std::int64_t classes) {
  return one_hot(draws.flatten(), classes).to(f64).mean(0).to_vector<double>();
}

/** Checks shares against probabilities, within five standard deviations of n draws. */
void check_shares(const std::vector<double>& got, const std::vector<double>& expected, double n) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    INFO("class " << i);
    const double p = expected[i];
    CHECK(std::abs(got[i] - p) <= 5 * std::sqrt(p * (1 - p) / n));
  }
}

}  // namespace

TEST_CASE("classes are drawn with their probabilities", "[multinomial]") {
  manual_seed(5);
  const std::vector<double> p{0.1, 0, 0.6, 0.3, 0};
  for (const DType dtype : {f16, bf16, f32, f64}) {
    INFO(name(dtype));
    const Tensor weights = tensor({2.0, 0.0, 12.0, 6.0, 0.0}, {.dtype = dtype});
    check_shares(shares(multinomial(weights, 20000, {.replacement = true}), 5), p, 20000);
    const Tensor rows = weights.expand({20000, 5});
    const Tensor single = multinomial(rows, 1);
    CHECK(single.shape() == Shape{20000, 1});
    CHECK(single.dtype() == i64);
    check_shares(shares(single, 5), p, 20000);
  }
}

TEST_CASE("draws without replacement follow the weights that are left", "[multinomial]") {
  manual_seed(6);
  const Tensor draws = multinomial(tensor({1.0, 2.0, 3.0}).expand({30000, 3}), 2);
  CHECK(((draws[{Slice(), 0}] == draws[{Slice(), 1}]).any().item()) == 0);
  check_shares(shares(draws[{Slice(), 0}], 3), {1.0 / 6, 2.0 / 6, 3.0 / 6}, 30000);
  // Probability of second draw j: the sum over i of p(i) p(j) / (1 - p(i)).
  const double second0 = 2.0 / 6 * (1.0 / 4) + 3.0 / 6 * (1.0 / 3);
  const double second1 = 1.0 / 6 * (2.0 / 5) + 3.0 / 6 * (2.0 / 3);
  check_shares(shares(draws[{Slice(), 1}], 3), {second0, second1, 1 - second0 - second1}, 30000);
  const std::vector<std::int64_t> all = multinomial(ones({50}), 50).to_vector<std::int64_t>();
  CHECK(std::set<std::int64_t>(all.begin(), all.end()).size() == 50);
}

TEST_CASE("each row has its own weights, of any number of classes", "[multinomial]") {
  manual_seed(7);
  for (const std::int64_t classes : {1, 2, 3, 7, 64, 1000}) {
    INFO(classes);
    const Tensor weights = zeros({2, classes});
    weights[{0, 0}] = 1;
    weights[{1, classes - 1}] = 0.25;
    const Tensor draws = multinomial(weights, 40, {.replacement = true});
    CHECK((draws[0] == 0).all().item() == 1);
    CHECK((draws[1] == classes - 1).all().item() == 1);
  }
}

TEST_CASE("draws depend on the seed only", "[multinomial]") {
  const Tensor weights = arange(100.0).to(f32);
  const auto draw = [&](bool replacement) {
    manual_seed(8);
    return multinomial(weights, 20, {.replacement = replacement}).to_vector<std::int64_t>();
  };
  CHECK(draw(true) == draw(true));
  CHECK(draw(false) == draw(false));
}

TEST_CASE("weights that give no probabilities are refused", "[multinomial]") {
  const double inf = std::numeric_limits<double>::infinity();
  CHECK_THROWS_WITH_AS_TEXT(multinomial(tensor({1, 2}, {.dtype = i64}), 1), DtypeError, "to(f32)");
  CHECK_THROWS_WITH_AS_TEXT(multinomial(tensor({-1.0, 2.0}), 1), ValueError, "negative");
  CHECK_THROWS_WITH_AS_TEXT(multinomial(tensor({inf, 2.0}), 1), ValueError, "infinite");
  CHECK_THROWS_WITH_AS_TEXT(multinomial(tensor({std::nan(""), 2.0}), 1), ValueError, "nan");
  CHECK_THROWS_WITH_AS_TEXT(multinomial(tensor({1e308, 1e308}, {.dtype = f64}), 1), ValueError,
                            "the sum is infinite");
  CHECK_THROWS_WITH_AS_TEXT(multinomial(zeros({3}), 1), ValueError, "positive weight");
  CHECK_THROWS_WITH_AS_TEXT(multinomial(tensor({0.0, 1.0, 1.0}), 3), ValueError, "at least 3");
  CHECK_THROWS_WITH_AS_TEXT(multinomial(ones({2}), 3), ValueError, "at least 3");
  CHECK_THROWS_WITH_AS_TEXT(multinomial(ones({2}), 0), ValueError, "at least 1");
  CHECK_THROWS_AS(multinomial(ones({2, 0}), 1), ShapeError);
  CHECK_THROWS_AS(multinomial(ones({1, 2, 3}), 1), ShapeError);
  CHECK_THROWS_AS(multinomial(tensor(1.0), 1), ShapeError);
}
