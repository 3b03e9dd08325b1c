// Statistics: quantiles, medians and their confidence intervals, against published ranks.
#include "../../measure/statistics.h"

#include <cmath>
#include <numeric>
#include <random>

#include "../support/catch.h"

using namespace mezzo;

namespace {

/** Returns 1, 2, ..., n, the last first. */
std::vector<double> ranks(int n) {
  std::vector<double> values(static_cast<std::size_t>(n));
  std::iota(values.rbegin(), values.rend(), 1.0);
  return values;
}

}  // namespace

TEST_CASE("quantiles and medians of known samples", "[statistics]") {
  CHECK(median_of({}) == 0);
  CHECK(median_of({5}) == 5);
  CHECK(median_of({3, 1, 2}) == 2);
  CHECK(median_of({4, 1, 3, 2}) == 2.5);
  CHECK(quantile_of({}, 0.5) == 0);
  CHECK(quantile_of(ranks(10), 0.0) == 1);
  CHECK(quantile_of(ranks(10), 0.1) == 2);
  CHECK(quantile_of(ranks(10), 0.9) == 10);
  CHECK(quantile_of(ranks(10), 1.0) == 10);
}

TEST_CASE("the interval of a median has the ranks of tables", "[statistics]") {
  // n, and the rank of the lower end at 95 %: the table of the sign test.
  const std::pair<int, int> table[] = {{6, 1},   {8, 1},   {9, 2},   {10, 2},  {12, 3},
                                       {15, 4},  {20, 6},  {25, 8},  {30, 10}, {40, 14},
                                       {50, 18}, {60, 22}, {80, 31}, {100, 40}};
  for (const auto& [n, rank] : table) {
    INFO("n = " << n);
    const MedianInterval interval = median_interval(ranks(n));
    CHECK(interval.value == (n + 1) / 2.0);
    CHECK(interval.low == rank);
    CHECK(interval.high == n + 1 - rank);
    CHECK(interval.relative_width() == Approx((n + 1.0 - 2 * rank) / interval.value));
  }
  // Far beyond the n at which 2^-n is zero: 1.96 standard deviations of sqrt(n) / 2.
  const MedianInterval many = median_interval(ranks(40000));
  CHECK(std::abs((many.high - many.low) - 1.96 * 200) < 3);
}

TEST_CASE("fewer than six values bound no interval", "[statistics]") {
  for (const int n : {0, 1, 5}) {
    const MedianInterval interval = median_interval(ranks(n));
    CHECK(interval.low == -INFINITY);
    CHECK(interval.high == INFINITY);
    CHECK_FALSE(interval.relative_width() <= 0.1);
  }
}

TEST_CASE("an interval misses the true median in at most 5 % of samples", "[statistics]") {
  std::mt19937 engine(7);
  std::exponential_distribution<double> skewed(1);
  for (const int n : {6, 11, 30}) {
    int missed = 0;
    constexpr int kSamples = 4000;
    for (int i = 0; i < kSamples; ++i) {
      std::vector<double> values;
      for (int j = 0; j < n; ++j) values.push_back(skewed(engine));
      const MedianInterval interval = median_interval(values);
      missed += interval.low > std::log(2.0) || interval.high < std::log(2.0) ? 1 : 0;
    }
    INFO("n = " << n << ": " << missed << " of " << kSamples);
    CHECK(missed <= 0.05 * kSamples + 3 * std::sqrt(0.05 * 0.95 * kSamples));
    CHECK(missed >= 0.01 * kSamples);  // the interval is not needlessly wide
  }
}
