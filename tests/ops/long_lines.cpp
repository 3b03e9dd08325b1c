// Ops along lines long enough for their second algorithm: sorting by bytes, choosing few of many,
// extremes, running extremes in several blocks; and joining of rows too short for a call each.
#include <mezzo.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "../support/catch.h"

using namespace mezzo;

namespace {

constexpr std::int64_t kLength = 3000;

/** Returns values with many ties, both zeros, infinities and nan where the dtype has them. */
Tensor line_values(DType dtype, std::int64_t rows) {
  Tensor x = (randn({rows, kLength}) * 20.0).to(f64);
  if (is_floating(dtype)) {
    const double special[] = {0.0, -0.0, INFINITY, -INFINITY, NAN, 1e-300, -1e300};
    for (std::int64_t i = 0; i < 70; ++i)
      x.index_put_({i % rows, i * 41}, special[static_cast<std::size_t>(i % 7)]);
  }
  if (dtype == DType::u8 || dtype == DType::boolean) x = abs(x);
  if (dtype == DType::f16 || dtype == DType::bf16 || !is_floating(dtype)) x = round(x);
  return x.to(dtype);
}

/** Returns whether a comes before b: nan is greatest. */
bool precedes(double a, double b, bool descending) {
  if (descending) std::swap(a, b);
  return !std::isnan(a) && (std::isnan(b) || a < b);
}

std::vector<std::int64_t> sorted_places(const std::vector<double>& x, bool descending) {
  std::vector<std::int64_t> places(x.size());
  std::iota(places.begin(), places.end(), 0);
  std::stable_sort(places.begin(), places.end(), [&](std::int64_t a, std::int64_t b) {
    return precedes(x[static_cast<std::size_t>(a)], x[static_cast<std::size_t>(b)], descending);
  });
  return places;
}

std::vector<double> row_of(const Tensor& x, std::int64_t row) {
  return x.select(0, row).to(f64).contiguous().to_vector<double>();
}

/** Returns x with 0 for nan, so that results with nan can be compared. */
Tensor without_nan(const Tensor& x) {
  return is_floating(x.dtype()) ? masked_fill(x, isnan(x), 0.0) : x;
}

}  // namespace

TEST_CASE("a value that is not finite is found anywhere in a row", "[reduce]") {
  manual_seed(3);
  const double values[] = {0.0, INFINITY, -INFINITY, NAN};
  const auto same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for (const DType dtype : {bf16, f16, f32, f64})
    for (const std::int64_t length : {3, 130, 255, 256, 321, 1000, 5000})
      for (const double special : values)
        for (const std::int64_t place : {std::int64_t{0}, length / 2, length - 1}) {
          Tensor x = randn({3, length}).to(dtype);
          x.index_put_({1, place}, special);
          INFO(name(dtype) << ", " << length << " values, " << special << " at " << place);
          const Tensor most = amax(x, {1}), least = amin(x, {1}), shares = softmax(x, 1);
          for (std::int64_t r = 0; r < 3; ++r) {
            const std::vector<double> row = row_of(x, r);
            const bool has_nan = r == 1 && std::isnan(special);
            CHECK(same(most[r].to(f64).item<double>(),
                       has_nan ? NAN : *std::max_element(row.begin(), row.end())));
            CHECK(same(least[r].to(f64).item<double>(),
                       has_nan ? NAN : *std::min_element(row.begin(), row.end())));
            CHECK(isnan(shares[r]).any().item<bool>() ==
                  (r == 1 && special != 0.0 && !(std::isinf(special) && special < 0)));
          }
        }
}

TEST_CASE("long lines are sorted stably", "[sort]") {
  for (const DType dtype : {DType::boolean, DType::u8, DType::i32, DType::i64, DType::f16,
                            DType::bf16, DType::f32, DType::f64})
    for (const bool descending : {false, true}) {
      INFO(name(dtype) << (descending ? " descending" : ""));
      const Tensor x = line_values(dtype, 2);
      const auto [values, indices] = sort(x, {.descending = descending});
      const auto few = topk(x, 20, {.largest = descending});
      for (const std::int64_t row : {0, 1}) {
        const auto places = sorted_places(row_of(x, row), descending);
        CHECK(indices.select(0, row).contiguous().to_vector<std::int64_t>() == places);
        CHECK(few.indices.select(0, row).contiguous().to_vector<std::int64_t>() ==
              std::vector<std::int64_t>(places.begin(), places.begin() + 20));
      }
      const Tensor taken = gather(x, 1, indices);
      CHECK(equal(without_nan(taken), without_nan(values)));
    }
}

TEST_CASE("few unsorted elements of a long line come in the order of their places", "[sort]") {
  const Tensor x = line_values(f32, 1);
  const auto few = topk(x, 20, {.sorted = false});
  auto places = sorted_places(row_of(x, 0), true);
  places.resize(20);
  std::sort(places.begin(), places.end());
  CHECK(few.indices.select(0, 0).contiguous().to_vector<std::int64_t>() == places);
}

TEST_CASE("running extremes of long dense lines are those of strided ones", "[cummax]") {
  for (const DType dtype : {DType::i64, DType::bf16, DType::f32}) {
    const Tensor x = line_values(dtype, 3), columns = x.t().contiguous();
    const auto dense = cummax(x, 1), strided = cummax(columns, 0);
    CHECK(equal(dense.indices, strided.indices.t()));
    CHECK(equal(without_nan(dense.values), without_nan(strided.values.t())));
    const auto least = cummin(x, 1), strided_least = cummin(columns, 0);
    CHECK(equal(least.indices, strided_least.indices.t()));
  }
}

TEST_CASE("short rows of several dtypes are joined", "[cat]") {
  const Tensor a = randn({500, 3}), b = randint(0, 100, {500, 5}), c = randn({500, 1}).to(f16);
  const Tensor joined = cat({a, b, c}, 1);
  REQUIRE(joined.dtype() == f32);
  CHECK(equal(joined.narrow(1, 0, 3), a));
  CHECK(equal(joined.narrow(1, 3, 5), b.to(f32)));
  CHECK(equal(joined.narrow(1, 8, 1), c.to(f32)));
  const Tensor pairs = stack({a, a * 2.0}, 2);
  CHECK(equal(pairs.select(2, 1), a * 2.0));
}
