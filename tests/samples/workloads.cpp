// The nets of the bench: each learns at every level, repeats bit for bit, and counts its work.
#include "../../samples/bench/measure.h"

#include <cmath>
#include <numeric>

#include "../../samples/common/program.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace samples;

namespace {

constexpr const char* kLevels[] = {"O0", "O1", "O2", "O3", "O4", "O5"};
constexpr Roof kRoof{1e9, 1e9};

Measurement tiny(const std::string& net, const std::string& level, std::int64_t steps) {
  return measure(net, {.level = level}, {.warm_up = 1, .steps = steps}, kRoof);
}

double mean_of(const std::vector<double>& losses, std::size_t from, std::size_t count) {
  const auto begin = losses.begin() + static_cast<std::ptrdiff_t>(from);
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), 0.0) / static_cast<double>(count);
}

}  // namespace

TEST_CASE("every net learns at every level", "[samples]") {
  for (const NetEntry& entry : all_nets())
    for (const char* level : kLevels) {
      INFO(entry.name << " " << level);
      const Measurement m = tiny(std::string(entry.name), level, 20);
      REQUIRE(m.losses.size() == 20);
      CHECK(std::isfinite(m.loss));
      // Four batches take turns: the first four losses against the last four are about the same data.
      CHECK(mean_of(m.losses, 16, 4) < mean_of(m.losses, 0, 4));
      CHECK((m.casts_per_step > 0) == (std::string(level) != "O0"));
      CHECK(m.memory.total.peak > 0);
      CHECK(m.share_of_floor() > 0);
    }
}

TEST_CASE("losses are the same bits from run to run and for any number of threads", "[samples]") {
  const int before = mezzo::num_threads();
  for (const NetEntry& entry : all_nets())
    for (const char* level : {"O0", "O2"}) {
      INFO(entry.name << " " << level);
      mezzo::set_num_threads(1);
      const std::vector<double> losses = tiny(std::string(entry.name), level, 4).losses;
      for (const int threads : {1, 2, 5}) {
        INFO(threads << " threads");
        mezzo::set_num_threads(threads);
        CHECK(tiny(std::string(entry.name), level, 4).losses == losses);
      }
    }
  mezzo::set_num_threads(before);
}

TEST_CASE("the work of an mlp step is counted", "[samples]") {
  const Measurement m = tiny("mlp", "O0", 2);
  // Three products forward; for each the weight's gradient, and the input's but for the first layer.
  const double forward = 2.0 * 16 * (784 * 64 + 64 * 64 + 64 * 10);
  CHECK(m.work.flops == 3 * forward - 2.0 * 16 * 784 * 64);
  const double weights = 4.0 * (784 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10);
  CHECK(m.work.bytes > 7 * weights);  // Adam alone: the gradient once, weight and both means twice
  CHECK(m.work.bytes < 20 * weights);
  CHECK(m.floor.arithmetic == m.work.flops / kRoof.flops_per_s);
}

TEST_CASE("the work of convolutions, attention and recurrent layers is counted", "[samples]") {
  using namespace mezzo;
  const auto flops = [](const auto& f) {
    const OpCount count;
    f();
    return count.work().flops;
  };
  const Tensor image = randn({2, 3, 8, 8}), weight = randn({4, 3, 3, 3});
  CHECK(flops([&] { conv2d(image, weight, {}, {.padding = 1}); }) == 2.0 * 2 * 4 * 64 * 27);
  const Tensor x = image.detach().requires_grad_(), w = weight.detach().requires_grad_();
  CHECK(flops([&] { sum(conv2d(x, w, {}, {.padding = 1})).backward(); }) == 3 * 2.0 * 2 * 4 * 64 * 27);
  CHECK(flops([&] {
          conv_transpose2d(image, randn({3, 5, 2, 2}), {}, {.stride = 2});
        }) == 2.0 * 2 * 3 * 64 * 20);
  const Tensor q = randn({2, 4, 6, 8}), k = randn({2, 4, 10, 8});
  CHECK(flops([&] { scaled_dot_product_attention(q, k, k); }) == 2 * 2.0 * 8 * 6 * 10 * 8);
  const nn::LSTM lstm{3, 5};
  CHECK(flops([&] { lstm(randn({7, 2, 3})); }) == 2.0 * 14 * (20 * 3 + 20 * 5));
}

TEST_CASE("unknown nets and sizes are refused with what there is", "[samples]") {
  CHECK_THROWS_WITH_AS_TEXT(make_workload("transformer", {}), UsageError, "char_gpt, char_lstm, dcgan");
  CHECK_THROWS_WITH_AS_TEXT(parse_size("huge"), UsageError, "tiny, small or full");
}
