// The synthetic digits data set.
#include "../../nn/data/image_sets.h"

#include <array>

#include "../../tensor/device/parallel.h"
#include "../support/catch.h"

using namespace mezzo;

TEST_CASE("digits depend on the seed only") {
  const data::Dataset a = data::synthetic_digits(300, 7);
  set_num_threads(1);
  const data::Dataset b = data::synthetic_digits(200, 7);
  set_num_threads(8);
  const data::Dataset c = data::synthetic_digits(300, 7), other = data::synthetic_digits(300, 8);
  set_num_threads(2);
  CHECK(a.x().to_vector<float>() == c.x().to_vector<float>());
  CHECK(a.y().to_vector<int>() == c.y().to_vector<int>());
  CHECK(a.slice(0, 200).x().to_vector<float>() == b.x().to_vector<float>());
  CHECK(a.y().to_vector<int>() != other.y().to_vector<int>());
}

TEST_CASE("digits look like MNIST's: shape, range, ink, labels") {
  const data::Dataset set = data::synthetic_digits(2000, 1, {.normalise = false});
  CHECK(set.x().shape() == Shape{2000, 1, 28, 28});
  CHECK(set.x().dtype() == f32);
  CHECK(set.y().dtype() == i64);
  const float* x = set.x().data<float>();
  double sum = 0, squares = 0;
  int outside = 0;
  for (std::int64_t i = 0; i < set.x().numel(); ++i) {
    outside += x[i] < 0 || x[i] > 1;
    sum += x[i];
    squares += x[i] * x[i];
  }
  CHECK(outside == 0);
  const double mean = sum / static_cast<double>(set.x().numel());
  const double deviation = std::sqrt(squares / static_cast<double>(set.x().numel()) - mean * mean);
  CHECK(mean == Approx(data::kMnistMean).margin(0.03));
  CHECK(deviation == Approx(data::kMnistDeviation).margin(0.06));
  std::array<int, 10> count{};
  for (int y : set.y().to_vector<int>()) ++count.at(static_cast<std::size_t>(y));
  for (int c : count) CHECK(std::abs(c - 200) < 70);
  // Every image has ink, and the corners are nearly empty.
  double corner = 0;
  for (std::int64_t i = 0; i < 2000; ++i) {
    double ink = 0;
    for (int p = 0; p < 784; ++p) ink += x[i * 784 + p];
    REQUIRE(ink > 8);
    corner += x[i * 784] + x[i * 784 + 783];
  }
  CHECK(corner / 4000 < 0.05);
}

TEST_CASE("options of the digits") {
  const data::Dataset plain = data::synthetic_digits(5, 3, {.normalise = false});
  const data::Dataset flat = data::synthetic_digits(5, 3, {.flat = true});
  CHECK(flat.x().shape() == Shape{5, 784});
  const std::vector<float> v = plain.x().to_vector<float>(), w = flat.x().to_vector<float>();
  for (std::size_t i = 0; i < v.size(); ++i)
    REQUIRE(w[i] == (v[i] - data::kMnistMean) / data::kMnistDeviation);
  CHECK_THROWS_AS(data::synthetic_digits(0), ValueError);
  CHECK_THROWS_AS(data::synthetic_digits(-1), ValueError);
}
