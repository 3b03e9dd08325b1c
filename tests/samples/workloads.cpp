// The nets of the bench: each learns at every level, repeats bit for bit, and reports its work.
#include "../../samples/bench/workload.h"

#include <cmath>
#include <numeric>

#include "../../measure/work_count.h"
#include "../../samples/common/program.h"
#include "../support/catch.h"
#include "../support/levels.h"
#include "../support/throws.h"

using namespace samples;
using mezzo::bench::Row;

namespace {

const std::vector<const char*> kLevels = levels::names();
constexpr mezzo::Roof kRoof{.f32_flops_per_s = 1e9,
                            .f16_flops_per_s = 1e9,
                            .bf16_flops_per_s = 1e9,
                            .memory_bytes_per_s = 1e9};

/** Returns options for so many steps, and no more. */
mezzo::bench::Options few(std::int64_t steps, std::vector<std::string> levels) {
  return {.levels = std::move(levels), .warm_up = 1, .steps = steps, .seconds = 0, .roof = kRoof};
}

Row tiny(const std::string& net, const std::string& level, std::int64_t steps) {
  return measure({bench_net(net, {})}, few(steps, {level})).rows.at(0);
}

double mean_of(const std::vector<double>& losses, std::size_t from, std::size_t count) {
  const auto begin = losses.begin() + static_cast<std::ptrdiff_t>(from);
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(count), 0.0) /
         static_cast<double>(count);
}

}  // namespace

TEST_CASE("every net learns at every level", "[samples]") {
  for (const NetEntry& entry : all_nets())
    for (const char* level : kLevels) {
      INFO(entry.name << " " << level);
      const Row m = tiny(std::string(entry.name), level, 20);
      REQUIRE(m.losses.size() == 20);
      CHECK(std::isfinite(m.loss));
      // Steps cycle through four batches, so that the first four and the last four losses are of
      // the same data.
      CHECK(mean_of(m.losses, 16, 4) < mean_of(m.losses, 0, 4));
      CHECK((m.casts_per_step > 0) == (std::string(level) != "O0"));
      CHECK(m.memory.total.peak > 0);
      CHECK(m.share_of_floor() > 0);
    }
}

TEST_CASE("ResNets of the full size are channels-last, in batches of 256", "[samples]") {
  const auto format_of = [](const Workload& workload, const std::string& tensor) {
    for (const auto& [name, value] : workload.tensors)
      if (name == tensor) return value.memory_format();
    FAIL("no tensor " << tensor);
    return mezzo::MemoryFormat::contiguous;
  };
  for (const char* net : {"resnet18", "resnet50"})
    for (const Size size : {Size::tiny, Size::full}) {
      INFO(net);
      const auto workload = make_workload(net, {.size = size, .batch = 2, .width = 4});
      const auto format =
          size == Size::full ? mezzo::MemoryFormat::channels_last : mezzo::MemoryFormat::contiguous;
      CHECK(format_of(*workload, "x.0") == format);
      CHECK(format_of(*workload, "net.layer1.0.conv2.weight") == format);
    }
  CHECK(make_workload("resnet18", {.size = Size::full, .width = 4})->samples == 256);
}

TEST_CASE("losses have the same bits in every run and for any number of threads", "[samples]") {
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

TEST_CASE("nets and levels measured in turns give the same figures as each alone", "[samples]") {
  const std::vector<std::string> all(kLevels.begin(), kLevels.end());
  const int before = mezzo::num_threads();
  mezzo::set_num_threads(1);  // several threads have workspaces at once, or one after the other
  std::vector<mezzo::bench::Net> nets;
  for (const char* net : {"mlp", "char_lstm", "dcgan"}) {
    nets.push_back(bench_net(net, {}));
    (void)tiny(net, "O0", 1 + 1);  // allocates what a thread keeps, which belongs to no level
  }
  std::vector<std::string> order;
  const std::vector<Row> together =
      measure(nets, few(7, all),
              {.row = [&](const Row& row) { order.push_back(row.net + " " + row.level); }})
          .rows;
  REQUIRE(together.size() == nets.size() * all.size());
  REQUIRE(order.size() == together.size());
  for (std::size_t i = 0; i < together.size(); ++i) {
    const Row& row = together[i];
    INFO(row.net << " " << row.level);
    CHECK(order[i] == nets[i / all.size()].name + " " + all[i % all.size()]);
    const Row alone = tiny(nets[i / all.size()].name, all[i % all.size()], 7);
    CHECK(row.error.empty());
    CHECK(row.losses == alone.losses);
    CHECK(row.losses.size() == 7);
    CHECK(row.loss_scale == alone.loss_scale);
    CHECK(row.skipped_steps == alone.skipped_steps);
    CHECK(row.cast_bytes_per_step == alone.cast_bytes_per_step);
    CHECK(row.work.bytes == alone.work.bytes);
    CHECK(row.floor_ms == alone.floor_ms);
    CHECK(row.memory.total.peak == alone.memory.total.peak);
    for (std::size_t c = 0; c < mezzo::kNumMemoryCategories; ++c)
      CHECK(row.memory.by_category[c].peak == alone.memory.by_category[c].peak);
  }
  mezzo::set_num_threads(before);
}

TEST_CASE("a level that fails is reported and does not affect the others", "[samples]") {
  const auto run = [](const std::vector<std::string>& levels, std::vector<std::string>& rows) {
    return measure(
               {bench_net("mlp", {})}, few(12, levels),
               {.row = [&](const Row& row) { rows.push_back(row.level + row.error.substr(0, 6)); }})
        .rows;
  };
  std::vector<std::string> rows;
  SECTION("on construction") {
    const std::vector<Row> results = run({"O0", "O9", "O2"}, rows);
    CHECK(rows == std::vector<std::string>{"O9" + results[1].error.substr(0, 6), "O0", "O2"});
    CHECK_FALSE(results[1].error.empty());
    CHECK(results[2].losses == tiny("mlp", "O2", 12).losses);
  }
  SECTION("during its steps") {
    const auto allocations = [] { return mezzo::memory_stats().total.allocations; };
    const std::int64_t before = allocations();
    (void)run({"O0", "O2"}, rows);
    mezzo::allocator_for(mezzo::cpu).fail_nth((allocations() - before) / 2);
    rows.clear();
    const std::vector<Row> results = run({"O0", "O2"}, rows);
    mezzo::allocator_for(mezzo::cpu).fail_nth(0);
    const std::size_t failed = results[0].error.empty() ? 1 : 0;
    CHECK(results[failed].error.find("memory") != std::string::npos);
    CHECK(results[failed].losses.empty());
    const Row& other = results[1 - failed];
    CHECK(other.error.empty());
    CHECK(other.losses == tiny("mlp", other.level, 12).losses);
    CHECK(rows.size() == 2);
  }
}

TEST_CASE("the work of an mlp step is computed", "[samples]") {
  const Row m = tiny("mlp", "O0", 2);
  // Three products forward. Backward, each has a product for the weight's gradient, and all but the
  // first layer one for the input's.
  const double forward = 2.0 * 16 * (784 * 64 + 64 * 64 + 64 * 10);
  CHECK(m.work.flops == 3 * forward - 2.0 * 16 * 784 * 64);
  const double weights = 4.0 * (784 * 64 + 64 + 64 * 64 + 64 + 64 * 10 + 10);
  // Adam reads the gradient, and reads and writes the weight and both moments.
  CHECK(m.work.bytes > 7 * weights);
  CHECK(m.work.bytes < 20 * weights);
  // Each op takes as long as its products or its memory traffic.
  CHECK(m.floor_ms > 1e3 * m.work.flops / kRoof.f32_flops_per_s);
  CHECK(m.floor_ms <= 1e3 * (m.work.flops + m.work.bytes) / kRoof.f32_flops_per_s);
}

TEST_CASE("the work of convolutions, attention and recurrent layers is computed", "[samples]") {
  using namespace mezzo;
  const auto flops = [](const auto& f) {
    const WorkCount count;
    f();
    return count.work().total().flops;
  };
  const Tensor image = randn({2, 3, 8, 8}), weight = randn({4, 3, 3, 3});
  CHECK(flops([&] { conv2d(image, weight, {}, {.padding = 1}); }) == 2.0 * 2 * 4 * 64 * 27);
  const Tensor x = image.detach().requires_grad_(), w = weight.detach().requires_grad_();
  CHECK(flops([&] { sum(conv2d(x, w, {}, {.padding = 1})).backward(); }) ==
        3 * 2.0 * 2 * 4 * 64 * 27);
  CHECK(flops([&] { conv_transpose2d(image, randn({3, 5, 2, 2}), {}, {.stride = 2}); }) ==
        2.0 * 2 * 3 * 64 * 20);
  const Tensor q = randn({2, 4, 6, 8}), k = randn({2, 4, 10, 8});
  CHECK(flops([&] { scaled_dot_product_attention(q, k, k); }) == 2 * 2.0 * 8 * 6 * 10 * 8);
  const nn::LSTM lstm{3, 5};
  CHECK(flops([&] { lstm(randn({7, 2, 3})); }) == 2.0 * 14 * (20 * 3 + 20 * 5));
}

TEST_CASE("by default, nets have sizes of their own, which options replace", "[samples]") {
  const auto samples_of = [](const char* net, std::int64_t batch,
                             mezzo::Device device = mezzo::cpu) {
    return make_workload(net, {.size = Size::of_net, .batch = batch, .device = device})->samples;
  };
  CHECK(samples_of("mlp", 0) == 128);
  CHECK(samples_of("mlp", 3) == 3);
  CHECK(samples_of("dcgan", 0) == 64);  // none of its own: small
  const auto weights_of = [](std::int64_t width) {
    const auto workload = make_workload("mlp", {.size = Size::of_net, .batch = 1, .width = width});
    for (const auto& [name, value] : workload->tensors)
      if (name.starts_with("net.")) return value.size(0);
    return std::int64_t{0};
  };
  CHECK(weights_of(0) == 1024);
  CHECK(weights_of(8) == 8);
  CHECK(parse_nets({"all"}).size() == all_nets().size());
  CHECK(parse_nets(default_nets()) == default_nets());
}

TEST_CASE("unknown nets and sizes are rejected with a list of the known ones", "[samples]") {
  CHECK_THROWS_WITH_AS_TEXT(make_workload("transformer", {}), UsageError,
                            "char_gpt, char_lstm, dcgan");
  CHECK_THROWS_WITH_AS_TEXT(parse_size("huge"), UsageError, "default, tiny, small or full");
  CHECK_THROWS_WITH_AS_TEXT(parse_nets({"mlp", "cnn"}), UsageError, "all or one of char_gpt");
}
