// The model of bench --scaling-model: closed forms, and steps whose times are known.
#include "../../samples/bench/scaling_model.h"

#include <cmath>
#include <numeric>
#include <random>

#include "../../nn/parallel/bucket_plan.h"
#include "../support/catch.h"

using namespace samples;

namespace {

constexpr double kMiB = 1 << 20;

/** Two ranks, whose reduction of b bytes takes 1 ms + b / (1 GB/s). */
Fabric simple(double slow_down = 0) {
  return fabric_of({.latency = 1e-3, .bytes_per_s = 1e9}, 2, slow_down, 4 * kMiB);
}

/** A step of `seconds` of which the first third is forward. Gradients of `bytes` in all are ready
 *  at a constant rate after it, and one of `last` bytes at the end. */
StepTimes even_step(double seconds, double bytes, double last) {
  constexpr int kPieces = 1024;
  StepTimes profile{seconds, {}};
  for (int i = 1; i <= kPieces; ++i)
    profile.gradients.push_back({seconds / 3 * (1 + 2.0 * i / kPieces), bytes / kPieces});
  if (last > 0) profile.gradients.push_back({seconds, last});
  return profile;
}

double percent(const StepTimes& profile, std::size_t fabric, int ranks) {
  return 100 * profile.seconds / predict_step(profile, known_fabrics()[fabric], ranks);
}

}  // namespace

TEST_CASE("an all-reduce takes latency and bytes of a ring, inside nodes and between",
          "[samples]") {
  CHECK(reduce_seconds(simple(), 2, 1e6) == Approx(2e-3));
  const Fabric fabric{.name = "",
                      .ranks_per_node = 4,
                      .inside = {1e-6, 1e9},
                      .between = {1e-3, 1e8},
                      .slow_down = 0,
                      .bucket_bytes = kMiB};
  CHECK(reduce_seconds(fabric, 1, 1e6) == 0);
  CHECK(reduce_seconds(fabric, 2, 1e6) == Approx(1e-6 + 1e-3));
  CHECK(reduce_seconds(fabric, 4, 1e6) == Approx(1e-6 + 1.5e-3));
  CHECK(reduce_seconds(fabric, 16, 1e6) == Approx(1e-6 + 1.5e-3 + 2 * 1e-3 + 1.5e-2));
}

TEST_CASE("gradients are reduced in buckets, large ones alone", "[samples]") {
  const std::vector<ReadyGradient> gradients{{1, 0.4 * kMiB}, {2, 3 * kMiB},   {3, 0.4 * kMiB},
                                             {4, 0.4 * kMiB}, {5, 0.4 * kMiB}, {6, 0.1 * kMiB}};
  const auto buckets = make_buckets(gradients, 1.1 * kMiB);
  REQUIRE(buckets.size() == 3);
  CHECK(buckets[0].seconds == 2);
  CHECK(buckets[0].bytes == 3 * kMiB);
  CHECK(buckets[1].seconds == 4);
  CHECK(buckets[1].bytes == Approx(1.2 * kMiB));
  CHECK(buckets[2].seconds == 6);
  CHECK(buckets[2].bytes == Approx(0.5 * kMiB));
  CHECK(make_buckets({}, kMiB).empty());
}

TEST_CASE("the model has the buckets of DistributedDataParallel", "[samples]") {
  std::mt19937 random(3);
  std::lognormal_distribution<double> sizes(10, 2);  // of elements: 22 k in the middle
  for (int round = 0; round < 50; ++round) {
    std::vector<mezzo::nn::BucketItem> items;
    std::vector<ReadyGradient> gradients;
    for (int i = 0; i < 60; ++i) {
      items.push_back({.numel = 1 + static_cast<std::int64_t>(sizes(random))});
      gradients.push_back({1.0 * i, static_cast<double>(items.back().bytes())});
    }
    std::vector<std::size_t> order(items.size());
    std::iota(order.begin(), order.end(), 0);
    const auto plans = mezzo::nn::plan_buckets(items, order, {});
    const auto buckets = make_buckets(gradients, 4 * kMiB);
    REQUIRE(buckets.size() == plans.size());
    for (std::size_t i = 0; i < plans.size(); ++i) {
      CHECK(buckets[i].bytes == 4.0 * static_cast<double>(plans[i].numel));
      CHECK(buckets[i].seconds == static_cast<double>(plans[i].items.back()));
    }
  }
}

TEST_CASE("a step ends when everything is computed and reduced", "[samples]") {
  // The reduction of one MiB takes 1 ms + 1.048576 ms.
  const double reduction = 1e-3 + kMiB * 1e-9;
  const StepTimes late{0.1, {{0.08, kMiB}}};
  CHECK(predict_step(late, simple(), 1) == 0.1);
  CHECK(predict_step(late, simple(), 2) == Approx(0.1 + reduction));
  // The first is hidden, the second is not: it ends after the last gradient is ready, and 0.02 s of
  // the step follow.
  const StepTimes hidden{0.1, {{0.01, kMiB}, {0.08, kMiB}}};
  CHECK(predict_step(hidden, simple(), 2) == Approx(0.1 + reduction));
  // The second has to wait for the first.
  const StepTimes queued{0.1, {{0.0795, kMiB}, {0.08, kMiB}}};
  CHECK(predict_step(queued, simple(), 2) == Approx(0.0995 + 2 * reduction));
  // Computing is slower while the first is reduced, which delays the second.
  CHECK(predict_step(hidden, simple(0.5), 2) == Approx(0.1 + 1.5 * reduction));
  CHECK(predict_step({0.1, {}}, simple(), 2) == 0.1);
}

TEST_CASE("a fitted line has the latency and bandwidth of the times", "[samples]") {
  std::vector<ReduceTime> times;
  for (double bytes = 1024; bytes <= 16 * kMiB; bytes *= 4)
    times.push_back({bytes, 30e-6 + bytes / 2e9});
  const Link link = fit_link(times);
  CHECK(link.latency == Approx(30e-6));
  CHECK(link.bytes_per_s == Approx(2e9));
  // Errors count relative to the time: small messages decide the latency.
  times.back().seconds *= 1.2;
  CHECK(fit_link(times).latency == Approx(30e-6).epsilon(0.1));
  for (const int ranks : {2, 4, 7})
    CHECK(reduce_seconds(fabric_of(link, ranks, 0, kMiB), ranks, 1e6) == Approx(30e-6 + 0.5e-3));
}

TEST_CASE("known fabrics: GPT-2 and ResNet-50 on 8, 64 and 512 GPUs", "[samples]") {
  // 124.4 M parameters, of which the tied embedding is ready last; 25.6 M parameters. Steps of
  // 30 ms and 21.6 ms. Percentages, rounded, by a coarser calculation, in which a slower backward
  // pass delays all reductions.
  const double gpt2 = 85.8e6, embedding = 38.6e6, resnet = 25.6e6;
  struct Case {
    StepTimes profile;
    double percent[3][3];  // fabric, then 8, 64, 512 ranks
  };
  const Case cases[] = {
      {even_step(0.030, 4 * gpt2, 4 * embedding), {{97, 94, 93}, {97, 31, 28}, {97, 4, 3}}},
      {even_step(0.030, 2 * gpt2, 2 * embedding), {{98, 97, 96}, {98, 53, 48}, {98, 7, 6}}},
      {even_step(0.0216, 4 * resnet, 0), {{100, 99, 98}, {100, 74, 68}, {100, 12, 11}}},
      {even_step(0.0216, 2 * resnet, 0), {{100, 99, 99}, {100, 82, 80}, {100, 22, 20}}}};
  for (const Case& c : cases)
    for (std::size_t fabric = 0; fabric < known_fabrics().size(); ++fabric)
      for (std::size_t i = 0; i < 3; ++i) {
        const int ranks = 8 << (3 * i);
        INFO(c.profile.seconds << " s, " << known_fabrics()[fabric].name << ", " << ranks);
        CHECK(percent(c.profile, fabric, ranks) ==
              Approx(c.percent[fabric][i]).margin(0.8 + 0.02 * c.percent[fabric][i]));
      }
}

TEST_CASE("more ranks are never faster", "[samples]") {
  const StepTimes profile = even_step(0.02, 50e6, 1e6);
  for (const Fabric& fabric : known_fabrics())
    for (int ranks = 1; ranks <= 512; ranks *= 2)
      CHECK(predict_step(profile, fabric, 2 * ranks) >= predict_step(profile, fabric, ranks));
}
