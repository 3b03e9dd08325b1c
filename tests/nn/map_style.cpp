// Data sets that return one sample at a time: collate, workers, samplers, subsets, errors.
#include <mezzo.h>

#include <atomic>
#include <set>
#include <thread>

#include "../support/catch.h"
#include "../support/numbered.h"
#include "../support/throws.h"

using namespace mezzo;
using data::AnyDataset;
using data::Batches;
using data::BatchOptions;
using data::Sample;

namespace {

/** Sample i is (i, noise) with target i. The noise is drawn from the default generator. */
struct Noisy {
  std::int64_t count = 0;
  std::int64_t size() const { return count; }
  Sample get(std::int64_t i) const {
    const Tensor noise = rand({1});
    return {cat({tensor(static_cast<double>(i)).view({1}), noise}), tensor(i)};
  }
};

/** Sample i has i + 1 elements; those of `bad` cannot be read. */
struct Ragged {
  std::int64_t count = 0, bad = -1;
  std::int64_t size() const { return count; }
  Sample get(std::int64_t i) const {
    if (i == bad) throw std::runtime_error("the disk is on fire");
    return {ones({i + 1}), tensor(i)};
  }
};

/** As numbered(), with a sample that fails a number of times. */
struct Failing {
  data::Dataset set;
  std::int64_t bad;
  std::shared_ptr<std::atomic<int>> times;
  std::int64_t size() const { return set.size(); }
  Sample get(std::int64_t i) const {
    if (i == bad && (*times)-- > 0)
      fail<FormatError>("load(7.png)", {.what = "the file is truncated"});
    return set.get(i);
  }
};

std::vector<Batch> all_of(Batches& batches) {
  std::vector<Batch> out;
  for (const Batch& batch : batches) out.push_back(batch);
  return out;
}

std::vector<Batch> all_of(Batches&& batches) { return all_of(batches); }

std::vector<std::int64_t> targets_of_all(const std::vector<Batch>& batches) {
  std::vector<std::int64_t> out;
  for (const Batch& batch : batches)
    for (const std::int64_t y : batch.y.to_vector<std::int64_t>()) out.push_back(y);
  return out;
}

void require_equal(const std::vector<Batch>& a, const std::vector<Batch>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(equal(a[i].x, b[i].x));
    CHECK(equal(a[i].y, b[i].y));
  }
}

}  // namespace

TEST_CASE("samples one by one make the batches of the tensors", "[data]") {
  const data::Dataset set = numbered(23);
  for (const std::int64_t prefetch : {0, 1, 3})
    for (const std::int64_t workers : {1, 2, 5})
      for (const bool drop_last : {false, true}) {
        const BatchOptions options{
            .size = 4, .seed = 9, .drop_last = drop_last, .prefetch = prefetch, .workers = workers};
        Batches fast(set, options), slow(AnyDataset(set), options);
        CHECK(slow.samples() == 23);
        CHECK(slow.size() == fast.size());
        for (int epoch = 0; epoch < 3; ++epoch) require_equal(all_of(slow), all_of(fast));
        CHECK(slow.position() == fast.position());
      }
}

TEST_CASE("random numbers of a sample depend on seed, epoch and index only", "[data]") {
  const auto batches = [](std::int64_t prefetch, std::int64_t workers, std::int64_t size = 3) {
    return Batches(Noisy{20}, {.size = size, .seed = 4, .prefetch = prefetch, .workers = workers});
  };
  Batches reference = batches(0, 1);
  const std::vector<Batch> first = all_of(reference), second = all_of(reference);
  const auto noise = [](const std::vector<Batch>& all) {
    std::vector<float> out(20);
    for (const Batch& batch : all)
      for (std::int64_t i = 0; i < batch.size(); ++i)
        out[static_cast<std::size_t>(batch.y[i].item<std::int64_t>())] =
            batch.x[i][1].item<float>();
    return out;
  };
  const std::vector<float> of_first = noise(first), of_second = noise(second);
  CHECK(std::set<float>(of_first.begin(), of_first.end()).size() == 20);
  for (std::size_t i = 0; i < 20; ++i) CHECK(of_first[i] != of_second[i]);
  // as documented
  const Generator own = split(split(4, (std::uint64_t{1} << 33) + 1).seed, 17);
  manual_seed(own.seed);
  CHECK(of_second[17] == rand({1}).item<float>());
  for (const std::int64_t prefetch : {0, 1, 2})
    for (const std::int64_t workers : {1, 2, 4}) {
      manual_seed(99);
      const Generator before = default_generator();
      Batches other = batches(prefetch, workers);
      require_equal(all_of(other), first);
      require_equal(all_of(other), second);
      CHECK(default_generator() == before);
    }
  CHECK(noise(all_of(batches(2, 2, 7))) == of_first);
  // and of two processes
  std::vector<Batch> shared;
  for (const int index : {0, 1}) {
    const auto part =
        all_of(Batches(Noisy{20}, {.size = 3, .seed = 4, .shard = {index, 2}, .exact = true}));
    shared.insert(shared.end(), part.begin(), part.end());
  }
  CHECK(noise(shared) == of_first);
  // a run that resumes
  Batches resumed = batches(2, 3);
  resumed.resume({.seed = 4, .epoch = 1, .sample = 9});
  require_equal(all_of(resumed), {second.begin() + 3, second.end()});
}

TEST_CASE("collate stacks samples and refuses different ones by name", "[data]") {
  const Batch batch =
      data::collate({{ones({2, 3}).t(), tensor(1.0)}, {zeros({3, 2}), tensor(2.0)}});
  CHECK(batch.x.shape() == Shape{2, 3, 2});
  CHECK(sum(batch.x).item<double>() == 6);
  CHECK(batch.y.to_vector<int>() == std::vector<int>{1, 2});
  CHECK(!data::collate({{ones({2}), {}}, {ones({2}), {}}}).y.defined());
  CHECK(data::collate({{ones({0}), tensor(1.0)}}).x.shape() == Shape{1, 0});
  const auto refused = [](const std::vector<Sample>& samples) { (void)data::collate(samples); };
  CHECK_THROWS_AS(refused({}), ValueError);
  CHECK_THROWS_AS(refused({{{}, ones({1})}}), ValueError);
  CHECK_THROWS_AS(refused({{ones({1}), ones({1})}, {ones({1}), {}}}), ValueError);
  CHECK_THROWS_AS(refused({{ones({1}), {}}, {ones({1}).to(f64), {}}}), DtypeError);
  CHECK_THROWS_WITH_AS_TEXT(
      refused({{ones({2}), {}}, {ones({2}), {}}, {ones({3}), {}}}), ShapeError,
      "collate(sample 2): x differs from that of the first sample of its batch; got f32[3]@cpu, "
      "expected f32[2]@cpu; crop or pad samples to one shape, or give a collate function");
  for (const std::int64_t workers : {1, 2})
    CHECK_THROWS_WITH_AS_TEXT(
        all_of(Batches(Ragged{4}, {.size = 2, .shuffle = false, .workers = workers})), ShapeError,
        "batches(sample 1): x differs from that of the first sample of its batch");
}

TEST_CASE("a collate function of one's own joins samples", "[data]") {
  const auto padded = [](const std::vector<Sample>& samples) {
    std::int64_t longest = 0;
    std::vector<Tensor> x, y;
    for (const Sample& sample : samples) longest = std::max(longest, sample.x.size(0));
    for (const Sample& sample : samples) {
      x.push_back(pad(sample.x, {0, longest - sample.x.size(0)}));
      y.push_back(sample.y);
    }
    return Batch{stack(x), stack(y)};
  };
  const auto batches = all_of(Batches(Ragged{5}, {.size = 2, .shuffle = false, .collate = padded}));
  REQUIRE(batches.size() == 3);
  CHECK(batches[0].x.shape() == Shape{2, 2});
  CHECK(batches[1].x.shape() == Shape{2, 4});
  CHECK(batches[2].x.shape() == Shape{1, 5});
  CHECK(sum(batches[1].x).item<double>() == 7);
  const auto empty = [](const std::vector<Sample>&) { return Batch{}; };
  CHECK_THROWS_AS(all_of(Batches(Ragged{5}, {.collate = empty})), ValueError);
}

TEST_CASE("an error of a sample names it, and the next increment tries again", "[data]") {
  for (const std::int64_t prefetch : {0, 2})
    for (const std::int64_t workers : {1, 3}) {
      INFO(prefetch << " " << workers);
      const Failing set{numbered(12), 7, std::make_shared<std::atomic<int>>(2)};
      Batches batches(set, {.size = 2, .shuffle = false, .prefetch = prefetch, .workers = workers});
      auto at = batches.begin();
      std::vector<std::int64_t> seen;
      int failures = 0;
      while (at != std::default_sentinel) {
        seen.push_back(at->y[0].item<std::int64_t>());
        for (bool again = true; again;) {
          again = false;
          try {
            ++at;
          } catch (const FormatError& error) {
            CHECK(std::string(error.what()) ==
                  "batches(sample 7): load(7.png): the file is truncated");
            CHECK(batches.position().sample == 6);
            ++failures;
            again = true;
          }
        }
      }
      CHECK(failures == 2);
      CHECK(seen == std::vector<std::int64_t>{0, 2, 4, 6, 8, 10});
      CHECK(targets_of_all(all_of(batches)).size() == 12);
    }
  const Ragged set{1, 0};
  CHECK_THROWS_WITH_AS_TEXT(all_of(Batches(set)), Error, "batches(sample 0): the disk is on fire");
}

TEST_CASE("workers gather a bounded number of batches in advance", "[data]") {
  struct Counted {
    std::shared_ptr<std::atomic<int>> calls = std::make_shared<std::atomic<int>>(0);
    std::int64_t size() const { return 1000; }
    Sample get(std::int64_t i) const {
      ++*calls;
      return {ones({1}), tensor(i)};
    }
  };
  const Counted set;
  Batches batches(set, {.size = 5, .shuffle = false, .prefetch = 2, .workers = 3});
  auto at = batches.begin();
  for (int step = 1; step <= 20; ++step, ++at) {
    while (*set.calls < std::min(1000, 5 * (step + 6))) std::this_thread::yield();
    CHECK(*set.calls == 5 * (step + 6));
  }
}

TEST_CASE("a process without samples gets a batch of none of single samples", "[data]") {
  Batches last(AnyDataset(numbered(9)),
               {.size = 2, .shuffle = false, .shard = {3, 4}, .exact = true, .workers = 2});
  const std::vector<Batch> batches = all_of(last);
  REQUIRE(batches.size() == 2);
  CHECK(batches[1].x.shape() == Shape{0, 2});
  CHECK(batches[1].y.shape() == Shape{0});
  CHECK(batches[1].y.dtype() == i64);
}

TEST_CASE("samplers order an epoch", "[data]") {
  const data::Dataset set = numbered(30);
  const auto order = [&](const data::Sampler& sampler, std::int64_t epoch = 0) {
    Batches batches(set, {.size = 7, .seed = 3, .sampler = sampler});
    batches.set_epoch(epoch);
    return targets_of_all(all_of(batches));
  };
  Batches shuffled(set, {.size = 7, .seed = 3}), plain(set, {.size = 7, .shuffle = false});
  CHECK(order(data::RandomSampler{}) == targets_of_all(all_of(shuffled)));
  CHECK(order(data::SequentialSampler{}) == targets_of_all(all_of(plain)));

  const auto more = order(data::RandomSampler{.num_samples = 70});
  REQUIRE(more.size() == 70);
  CHECK(std::set<std::int64_t>(more.begin(), more.begin() + 30).size() == 30);
  CHECK(std::set<std::int64_t>(more.begin() + 30, more.begin() + 60).size() == 30);
  CHECK(!std::equal(more.begin(), more.begin() + 30, more.begin() + 30));

  const auto drawn = order(data::RandomSampler{.replacement = true, .num_samples = 3000});
  for (std::int64_t i = 0; i < 30; ++i)
    CHECK(std::abs(std::count(drawn.begin(), drawn.end(), i) - 100) < 50);
  CHECK(drawn != order(data::RandomSampler{.replacement = true, .num_samples = 3000}, 1));

  std::vector<double> weights(30);
  weights[4] = 1;
  weights[20] = 3;
  const auto weighted = order(data::WeightedRandomSampler{weights, 4000});
  CHECK(std::abs(std::count(weighted.begin(), weighted.end(), 20) - 3000) < 140);
  CHECK(std::count(weighted.begin(), weighted.end(), 4) +
            std::count(weighted.begin(), weighted.end(), 20) ==
        4000);
  int first = 0;
  for (int epoch = 0; epoch < 400; ++epoch) {
    const auto once = order(data::WeightedRandomSampler{weights, 2, /*replacement=*/false}, epoch);
    REQUIRE(once.size() == 2);
    CHECK(once[0] + once[1] == 24);
    first += once[0] == 20;
  }
  CHECK(std::abs(first - 300) < 45);
}

TEST_CASE("a sample that is drawn twice gets other random numbers", "[data]") {
  const data::Sampler twice = [](std::int64_t, const Generator&) {
    return std::vector<std::int64_t>{1, 1, 0, 1};
  };
  const Batch batch = all_of(Batches(Noisy{2}, {.sampler = twice}))[0];
  const auto x = batch.x.to_vector<float>();
  CHECK(std::set<float>{x[1], x[3], x[5], x[7]}.size() == 4);
  const Batch once = all_of(Batches(Noisy{2}, {.shuffle = false}))[0];
  CHECK(once.x.to_vector<float>()[3] == x[1]);
}

TEST_CASE("bad samplers and options are refused", "[data]") {
  const AnyDataset set = numbered(4);
  const auto refused = [&](const data::Sampler& sampler) {
    (void)all_of(Batches(set, {.sampler = sampler}));
  };
  using data::WeightedRandomSampler;
  CHECK_THROWS_AS(refused(WeightedRandomSampler{{1, 1}, 2}), ValueError);
  CHECK_THROWS_AS(refused(WeightedRandomSampler{{1, 1, 1, -1}, 2}), ValueError);
  CHECK_THROWS_AS(refused(WeightedRandomSampler{{0, 0, 0, 0}, 2}), ValueError);
  CHECK_THROWS_AS(refused(WeightedRandomSampler{{1, 1, NAN, 1}, 2}), ValueError);
  CHECK_THROWS_AS(refused(WeightedRandomSampler{{1, 1, 1, 1}, 0}), ValueError);
  CHECK_THROWS_AS(refused(WeightedRandomSampler{{1, 1, 0, 0}, 3, false}), ValueError);
  CHECK_THROWS_AS(refused(data::RandomSampler{.num_samples = -1}), ValueError);
  CHECK_THROWS_AS(refused(data::RandomSampler{.num_samples = 0}), ValueError);
  const auto fixed = [](std::vector<std::int64_t> order) {
    return [order](std::int64_t, const Generator&) { return order; };
  };
  CHECK_THROWS_WITH_AS_TEXT(refused(fixed({0, 4})), IndexError,
                            "batches(sampler): no such sample; got 4, expected 0..3");
  CHECK_THROWS_AS(refused(fixed({-1})), IndexError);
  std::int64_t calls = 0;
  CHECK_THROWS_AS(refused([&calls](std::int64_t, const Generator&) {
                    return std::vector<std::int64_t>(static_cast<std::size_t>(++calls));
                  }),
                  ValueError);
  CHECK_THROWS_AS(Batches(set, {.workers = 0}), ValueError);
  CHECK_THROWS_AS(Batches(AnyDataset(Noisy{0})), ValueError);
  CHECK_THROWS_AS(Batches(set, {.size = 5, .drop_last = true}), ValueError);
}

TEST_CASE("subsets and joined data sets", "[data]") {
  const data::Dataset set = numbered(10);
  const data::Subset part(set, {7, 2, 2});
  CHECK(part.size() == 3);
  CHECK(targets_of_all(all_of(Batches(part, {.shuffle = false}))) ==
        std::vector<std::int64_t>{7, 2, 2});
  CHECK_THROWS_AS(data::Subset(set, {10}), IndexError);
  CHECK_THROWS_AS(data::Subset(set, {-1}), IndexError);
  CHECK_THROWS_AS(part.get(3), IndexError);

  const data::ConcatDataset both({part, set.slice(0, 0), set.slice(4, 2)});
  CHECK(both.size() == 5);
  CHECK(targets_of_all(all_of(Batches(both, {.size = 2, .shuffle = false}))) ==
        std::vector<std::int64_t>{7, 2, 2, 4, 5});
  CHECK_THROWS_WITH_AS_TEXT(both.get(5), IndexError,
                            "ConcatDataset::get: no such sample; got 5, expected 0..4");
  CHECK_THROWS_AS(both.get(-1), IndexError);
  CHECK_THROWS_AS(data::ConcatDataset({}), ValueError);
  CHECK_THROWS_AS(set.get(10), IndexError);
}

TEST_CASE("random_split divides a data set", "[data]") {
  const data::Dataset set = numbered(11);
  const auto sizes = [](const std::vector<data::Subset>& parts) {
    std::vector<std::int64_t> out;
    for (const data::Subset& part : parts) out.push_back(part.size());
    return out;
  };
  const auto parts = data::random_split(set, {7, 4}, 5);
  CHECK(sizes(parts) == std::vector<std::int64_t>{7, 4});
  std::set<std::int64_t> all(parts[0].indices().begin(), parts[0].indices().end());
  all.insert(parts[1].indices().begin(), parts[1].indices().end());
  CHECK(all.size() == 11);
  CHECK(data::random_split(set, {7, 4}, 5)[1].indices() == parts[1].indices());
  CHECK(data::random_split(set, {7, 4}, 6)[1].indices() != parts[1].indices());
  const std::int64_t n = set.size();
  CHECK(sizes(data::random_split(set, {n - 2, 2, 0})) == std::vector<std::int64_t>{9, 2, 0});
  // as PyTorch divides
  CHECK(sizes(data::random_split(set, {0.5, 0.25, 0.25})) == std::vector<std::int64_t>{6, 3, 2});
  CHECK(sizes(data::random_split(set, {1.0})) == std::vector<std::int64_t>{11});
  CHECK_THROWS_AS(data::random_split(set, {}), ValueError);
  CHECK_THROWS_AS(data::random_split(set, {7, 3}), ValueError);
  CHECK_THROWS_AS(data::random_split(set, {12, -1}), ValueError);
  CHECK_THROWS_AS(data::random_split(set, {INT64_MAX, INT64_MAX}), ValueError);
  CHECK_THROWS_AS(data::random_split(set, {0.5, 0.4}), ValueError);
  CHECK_THROWS_AS(data::random_split(set, {1.5, -0.5}), ValueError);
  CHECK_THROWS_AS(data::random_split(set, {0.5, 5}), ValueError);
}
