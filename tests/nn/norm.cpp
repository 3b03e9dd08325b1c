// Normalisation layers against plain loops: results, running statistics, keys, modes.
#include <cmath>

#include "support.h"

using namespace mezzo;

namespace {

/** Mean and biased variance of each channel of x [N,C,S]. */
struct Statistics {
  std::vector<double> mean, var;
  double count = 0;
};

Statistics statistics_of(const Tensor& x) {
  const std::vector<double> v = values(x);
  const auto n = static_cast<std::size_t>(x.size(0)), c = static_cast<std::size_t>(x.size(1));
  const std::size_t s = v.size() / n / c;
  Statistics out{std::vector<double>(c), std::vector<double>(c), static_cast<double>(n * s)};
  for (std::size_t k = 0; k < c; ++k) {
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < s; ++j) out.mean[k] += v[(i * c + k) * s + j] / out.count;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < s; ++j)
        out.var[k] += std::pow(v[(i * c + k) * s + j] - out.mean[k], 2) / out.count;
  }
  return out;
}

void check_close(const std::vector<double>& got, const std::vector<double>& expected,
                 double margin = 1e-5) {
  REQUIRE(got.size() == expected.size());
  double most = 0;
  for (std::size_t i = 0; i < got.size(); ++i)
    most = std::max(most, std::abs(got[i] - expected[i]));
  CHECK(most < margin);
}

/** Returns (x - mean) / sqrt(var + eps) per channel. */
std::vector<double> normalised(const Tensor& x, const std::vector<double>& mean,
                               const std::vector<double>& var) {
  std::vector<double> v = values(x);
  const std::size_t c = mean.size(), s = v.size() / static_cast<std::size_t>(x.size(0)) / c;
  for (std::size_t i = 0; i < v.size(); ++i)
    v[i] = (v[i] - mean[i / s % c]) / std::sqrt(var[i / s % c] + 1e-5);
  return v;
}

}  // namespace

TEST_CASE("BatchNorm2d keeps running statistics as a plain loop does") {
  manual_seed(5);
  const nn::BatchNorm2d layer(3);
  CHECK(keys(layer) ==
        "weight [3], bias [3], running_mean [3], running_var [3], num_batches_tracked []");
  CHECK(layer.keeps_f32_under_amp());
  std::vector<double> mean(3, 0), var(3, 1);
  for (int step = 1; step <= 4; ++step) {
    const Tensor x = randn({4, 3, 5, 2}) * 3 + 1;
    const Statistics s = statistics_of(x);
    check_close(values(layer(x)), normalised(x, s.mean, s.var));
    for (std::size_t k = 0; k < 3; ++k) {
      mean[k] = 0.9 * mean[k] + 0.1 * s.mean[k];
      var[k] = 0.9 * var[k] + 0.1 * s.var[k] * s.count / (s.count - 1);
    }
    check_close(values(layer.running_mean()), mean);
    check_close(values(layer.running_var()), var);
    CHECK(layer.num_batches_tracked().item<int>() == step);
  }
  layer.eval();
  const Tensor x = randn({1, 3, 2, 2});
  check_close(values(layer(x)), normalised(x, mean, var));
  CHECK(layer.num_batches_tracked().item<int>() == 4);
}

TEST_CASE("batch norm without momentum weights all batches equally") {
  const nn::BatchNorm1d layer(2, {.momentum = {}});
  const Tensor a = randn({8, 2}), b = randn({8, 2}), c = randn({8, 2, 3});
  for (const Tensor& x : {a, b, c}) layer(x);
  std::vector<double> mean(2, 0);
  for (const Tensor& x : {a, b, c})
    for (std::size_t k = 0; k < 2; ++k) mean[k] += statistics_of(x).mean[k] / 3;
  check_close(values(layer.running_mean()), mean);
}

TEST_CASE("batch norm without affine or without tracking") {
  const nn::BatchNorm2d plain(3, {.affine = false}), untracked(3, {.track_running_stats = false});
  CHECK(keys(plain) == "running_mean [3], running_var [3], num_batches_tracked []");
  CHECK_FALSE(plain.keeps_f32_under_amp());
  CHECK(keys(untracked) == "weight [3], bias [3]");
  untracked.eval();
  const Tensor x = randn({4, 3, 2, 2}) + 5;
  const Statistics s = statistics_of(x);
  check_close(values(untracked(x)), normalised(x, s.mean, s.var));
}

TEST_CASE(
    "batch norm takes 16-bit activations with f32 weights and returns the activations' dtype") {
  const nn::BatchNorm2d layer(2);
  const Tensor x = randn({4, 2, 3, 3}).to(f16), y = layer(x);
  CHECK(y.dtype() == f16);
  const Statistics s = statistics_of(x);
  check_close(values(y), normalised(x, s.mean, s.var), 2e-3);
  CHECK(layer.running_mean().dtype() == f32);
}

TEST_CASE("batch norm updates its own statistics if a user's tag casts its operands") {
  const Tensor x = randn({6, 3});
  const nn::BatchNorm1d plain{3}, cast{3};
  plain(x);
  {
    const amp::autocast casts;
    const amp::policy_override low{{"batch_norm", Precision::low}};
    CHECK(cast(x).dtype() == f16);
  }
  const auto statistics = [](const nn::BatchNorm1d& layer) {
    std::vector<double> all = layer.running_mean().to_vector<double>();
    for (const double v : layer.running_var().to_vector<double>()) all.push_back(v);
    return all;
  };
  const std::vector<double> expected = statistics(plain), got = statistics(cast);
  for (std::size_t i = 0; i < expected.size(); ++i) CHECK(std::abs(got[i] - expected[i]) < 1e-3);
  CHECK(got != std::vector<double>{0, 0, 0, 1, 1, 1});
}

TEST_CASE("batch norm refuses wrong shapes and keeps its statistics") {
  const nn::Sequential net{nn::BatchNorm2d{3}};
  CHECK(error_of<ShapeError>([&] { net(randn({4, 3})); }) ==
        "batch_norm(0): wrong number of dimensions for BatchNorm2d; got f32[4,3]@cpu, expected 4 "
        "dimensions");
  CHECK_THROWS_AS(net(randn({4, 2, 2, 2})), ShapeError);
  CHECK_THROWS_AS(net(randn({1, 3, 1, 1})), ShapeError);  // one value per channel
  CHECK(values(net.buffer("0.running_mean")) == std::vector<double>{0, 0, 0});
  CHECK(net.buffer("0.num_batches_tracked").item<int>() == 0);
  CHECK_THROWS_AS(nn::BatchNorm1d{0}, ValueError);
  CHECK_THROWS_AS(nn::BatchNorm1d{3}(randn({4, 3, 2, 2})), ShapeError);
  CHECK(nn::BatchNorm3d{3}(randn({2, 3, 2, 2, 2})).shape() == Shape{2, 3, 2, 2, 2});
}

TEST_CASE("gradients flow through batch norm") {
  const nn::BatchNorm1d layer(3);
  const Tensor x = randn({6, 3}, {.requires_grad = true});
  sum(layer(x) * randn({6, 3})).backward();
  CHECK(x.grad().defined());
  CHECK(layer.weight().grad().defined());
  CHECK(layer.bias().grad().defined());
}

TEST_CASE("LayerNorm, RMSNorm and GroupNorm") {
  manual_seed(6);
  const Tensor x = randn({4, 6}) * 2 + 1;
  const nn::LayerNorm layer{6};
  CHECK(keys(layer) == "weight [6], bias [6]");
  CHECK_FALSE(layer.keeps_f32_under_amp());
  const Statistics s = statistics_of(x.unsqueeze(0));  // rows as channels
  check_close(values(layer(x)), normalised(x.unsqueeze(0), s.mean, s.var));
  CHECK(keys(nn::LayerNorm{{2, 3}}) == "weight [2,3], bias [2,3]");
  CHECK(keys(nn::LayerNorm(6, {.bias = false})) == "weight [6]");
  CHECK(keys(nn::LayerNorm(6, {.affine = false})).empty());
  const nn::RMSNorm rms{6};
  CHECK(keys(rms) == "weight [6]");
  check_close(values(rms(x)), values(rms_norm(x, {6}, {.weight = rms.weight()})));
  const nn::GroupNorm group(2, 6);
  CHECK(keys(group) == "weight [6], bias [6]");
  const Statistics g = statistics_of(x.view({1, 8, 3}));
  check_close(values(group(x)), normalised(x.view({1, 8, 3}), g.mean, g.var));
  CHECK_THROWS_AS(nn::GroupNorm(4, 6), ValueError);
}
