// Data sets and their batches: order, prefetching, resuming, bad input.
#include "../../nn/data/dataset.h"

#include <algorithm>
#include <set>

#include "../../tensor/ops/ops.h"
#include "../../tensor/random/generator.h"
#include "../../tensor/random/philox.h"
#include "../support/catch.h"
#include "../support/numbered.h"

using namespace mezzo;
using data::Batches;
using data::BatchOptions;
using data::Dataset;

namespace {

/** Returns the targets of an epoch, with -1 after each batch, and checks that x matches y. */
std::vector<int> epoch(Batches& batches) {
  std::vector<int> out;
  for (const Batch& batch : batches) {
    const std::vector<int> y = batch.y.to_vector<int>(), x = batch.x.to_vector<int>();
    REQUIRE(batch.size() == static_cast<std::int64_t>(y.size()));
    for (std::size_t i = 0; i < y.size(); ++i) {
      REQUIRE(x[2 * i] == y[i]);
      REQUIRE(x[2 * i + 1] == 10 * y[i]);
    }
    out.insert(out.end(), y.begin(), y.end());
    out.push_back(-1);
  }
  return out;
}

std::vector<int> epoch(Batches&& batches) { return epoch(batches); }

}  // namespace

TEST_CASE("memory of a data set does not count as activations") {
  const auto bytes = [](MemoryCategory category) { return memory_stats()[category].current; };
  const std::int64_t activations = bytes(MemoryCategory::activations);
  const std::int64_t weights = bytes(MemoryCategory::weights);
  const Tensor weight = zeros({1000, 2});
  weight.impl()->storage->set_category(MemoryCategory::weights);
  {
    const std::int64_t other = bytes(MemoryCategory::other);
    const Dataset set = numbered(1000), part = set.slice(100, 500), of_weights(weight, weight);
    CHECK(bytes(MemoryCategory::activations) == activations);
    CHECK(bytes(MemoryCategory::other) - other == 1000 * (2 * 4 + 8));
    CHECK(bytes(MemoryCategory::weights) - weights == 1000 * 2 * 4);
  }
  CHECK(bytes(MemoryCategory::activations) == activations);
}

TEST_CASE("batches without shuffling come in order") {
  const Dataset set = numbered(7);
  for (const std::int64_t prefetch : {0, 1, 3}) {
    CHECK(epoch(set.batches({.size = 3, .shuffle = false, .prefetch = prefetch})) ==
          std::vector<int>{0, 1, 2, -1, 3, 4, 5, -1, 6, -1});
    CHECK(epoch(set.batches(
              {.size = 3, .shuffle = false, .drop_last = true, .prefetch = prefetch})) ==
          std::vector<int>{0, 1, 2, -1, 3, 4, 5, -1});
    CHECK(epoch(set.batches({.size = 9, .shuffle = false, .prefetch = prefetch})).size() == 8);
  }
  CHECK(set.batches({.size = 3}).size() == 3);
  CHECK(set.batches({.size = 3, .drop_last = true}).size() == 2);
}

TEST_CASE("the order of an epoch depends on seed and epoch alone") {
  const Dataset set = numbered(50);
  Batches a = set.batches({.size = 8, .seed = 5}),
          b = set.batches({.size = 8, .seed = 5, .prefetch = 0});
  Batches other = set.batches({.size = 8, .seed = 6});
  const std::vector<int> first = epoch(a), second = epoch(a);
  CHECK(first == epoch(b));
  CHECK(second == epoch(b));
  CHECK(first != second);
  CHECK(first != epoch(other));
  std::vector<int> seen = first;
  std::erase(seen, -1);
  CHECK(std::set<int>(seen.begin(), seen.end()).size() == 50);
  CHECK(seen.size() == 50);
}

TEST_CASE("the shuffle is the documented one") {
  std::vector<int> order(20);
  for (int i = 0; i < 20; ++i) order[static_cast<std::size_t>(i)] = i;
  const PhiloxStream stream = split(9, 2).next_stream();
  for (std::size_t i = 19; i >= 1; --i) {
    const PhiloxBlock block = philox_block(stream, i / 2);
    const std::uint32_t low = block.word[i % 2 == 0 ? 0 : 2], high = block.word[i % 2 == 0 ? 1 : 3];
    std::swap(order[i], order[uniform_below(i + 1, low, high)]);
  }
  order.push_back(-1);
  Batches batches = numbered(20).batches({.size = 20, .seed = 9});
  epoch(batches);
  epoch(batches);
  CHECK(epoch(batches) == order);
}

TEST_CASE("each position is equally likely") {
  Batches batches = numbered(10).batches({.size = 10, .prefetch = 0});
  std::vector<int> at_first(10, 0);
  for (int i = 0; i < 5000; ++i) ++at_first[static_cast<std::size_t>(epoch(batches)[0])];
  for (int count : at_first) CHECK(std::abs(count - 500) < 110);  // five standard deviations
}

TEST_CASE("a run resumes at its position") {
  const Dataset set = numbered(20);
  Batches original = set.batches({.size = 4, .seed = 3});
  epoch(original);
  std::vector<int> rest;
  data::Position saved;
  int count = 0;
  for (const Batch& batch : original) {
    if (++count == 2) saved = original.position();
    if (count > 2)
      for (int y : batch.y.to_vector<int>()) rest.push_back(y);
  }
  CHECK(saved == data::Position{.seed = 3, .epoch = 1, .sample = 8});
  const std::vector<int> next = epoch(original);

  Batches resumed = set.batches({.size = 4, .seed = 99});
  resumed.resume(saved);
  std::vector<int> tail = epoch(resumed);
  std::erase(tail, -1);
  CHECK(tail == rest);
  CHECK(epoch(resumed) == next);
  CHECK(resumed.position() == original.position());
  CHECK_THROWS_AS(resumed.resume({.sample = 21}), ValueError);
  CHECK_THROWS_AS(resumed.resume({.sample = -1}), ValueError);
}

TEST_CASE("an epoch that was left early is not continued") {
  const Dataset set = numbered(20);
  Batches a = set.batches({.size = 4}), b = set.batches({.size = 4});
  for (const Batch& batch : a) {
    CHECK(batch.size() == 4);
    break;
  }
  epoch(b);
  CHECK(epoch(a) == epoch(b));
}

TEST_CASE("a loop over a temporary data set is safe, and its batches own their memory") {
  std::vector<Tensor> kept;
  for (const Batch& batch : numbered(6).batches({.size = 2, .shuffle = false})) {
    batch.x.fill_(-1);
    kept.push_back(batch.x);
  }
  CHECK(kept.size() == 3);
  CHECK(kept[2].to_vector<int>() == std::vector<int>{-1, -1, -1, -1});
  const Dataset set = numbered(3);
  for (const Batch& batch : set.batches({.size = 1})) batch.x.fill_(-1);
  CHECK(set.x().to_vector<int>()[2] == 1);
}

TEST_CASE("a loop that resumes its own loader ends, and the next one starts at that position") {
  Batches batches = numbered(6).batches({.size = 2, .shuffle = false});
  int seen = 0;
  for (const Batch& batch : batches) {
    CHECK(batch.size() == 2);
    if (++seen == 1) batches.resume({.seed = batches.position().seed, .epoch = 0, .sample = 4});
  }
  CHECK(seen == 1);
  CHECK(batches.begin()->x.to_vector<int>()[0] == 4);
}

TEST_CASE("the batch of a loop stays valid when its body resumes the loader") {
  Batches batches = numbered(6).batches({.size = 2, .shuffle = false});
  for (const Batch& batch : batches) {
    batches.resume({.sample = 4});
    REQUIRE(batch.x.defined());
    CHECK(batch.x.to_vector<int>() == std::vector<int>{0, 0, 1, 10});
    CHECK(batch.size() == 2);
  }
  CHECK(batches.begin()->x.to_vector<int>()[0] == 4);
}

TEST_CASE("slices and dtypes") {
  const Dataset part = numbered(10).slice(4, 3);
  CHECK(part.size() == 3);
  CHECK(epoch(part.batches({.size = 3, .shuffle = false})) == std::vector<int>{4, 5, 6, -1});
  CHECK_THROWS_AS(part.slice(2, 2), IndexError);
  CHECK_THROWS_AS(part.slice(0, -1), IndexError);
  const Dataset halves(numbered(4).x().to(f16).t().contiguous().t(),
                       ones({4, 1}, {.dtype = boolean}));
  for (const Batch& batch : halves.batches({.size = 4, .shuffle = false})) {
    CHECK(batch.x.dtype() == f16);
    CHECK(batch.x.to_vector<int>() == std::vector<int>{0, 0, 1, 10, 2, 20, 3, 30});
    CHECK(batch.y.dtype() == boolean);
  }
}

TEST_CASE("bad data sets and batch options are refused") {
  CHECK_THROWS_AS(Dataset(ones({3, 2}), ones({4})), ShapeError);
  CHECK_THROWS_AS(Dataset(ones({3, 2}), Tensor{}), ShapeError);
  CHECK_THROWS_AS(Dataset(tensor(1.0), tensor(1.0)), ShapeError);
  const Dataset none = numbered(3).slice(0, 0), some = numbered(5);
  CHECK_THROWS_AS(none.batches(), ValueError);
  CHECK_THROWS_WITH(none.batches(),
                    "batches: the data set is empty; got no samples, expected at least one sample");
  CHECK_THROWS_AS(some.batches({.size = 0}), ValueError);
  CHECK_THROWS_AS(some.batches({.size = 6, .drop_last = true}), ValueError);
  CHECK_THROWS_AS(some.batches({.prefetch = -1}), ValueError);
}
