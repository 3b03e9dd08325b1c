// Data sets without a size: parts, workers, the shuffle buffer, resumption, errors.
#include <mezzo.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <set>

#include "../io/files.h"
#include "../support/catch.h"
#include "../support/throws.h"

using namespace mezzo;
using data::Batches;
using data::BatchOptions;
using data::Sample;
using data::StreamDataset;
using data::StreamPart;

namespace {

/** The numbers of a part of 0..n-1, each with a random number. */
struct Count {
  std::int64_t next_one, step, n;

  std::optional<Sample> next() {
    if (next_one >= n) return {};
    const std::int64_t value = std::exchange(next_one, next_one + step);
    return Sample{rand({2}), tensor(value)};
  }
};

StreamDataset numbers(std::int64_t n) {
  return StreamDataset([n](const StreamPart& part) { return Count{part.index, part.count, n}; });
}

using Numbers = std::vector<std::int64_t>;

Numbers targets(const Batch& batch) { return batch.y.to_vector<std::int64_t>(); }

/** Returns the targets of all batches of an epoch. */
std::vector<Numbers> epoch_of(Batches& batches) {
  std::vector<Numbers> out;
  for (const Batch& batch : batches) out.push_back(targets(batch));
  return out;
}

std::vector<Numbers> epoch_of(const StreamDataset& set, const BatchOptions& options) {
  Batches batches(set, options);
  return epoch_of(batches);
}

Numbers joined_numbers(const std::vector<Numbers>& batches) {
  Numbers out;
  for (const Numbers& batch : batches) out.insert(out.end(), batch.begin(), batch.end());
  return out;
}

Numbers sorted(Numbers all) {
  std::sort(all.begin(), all.end());
  return all;
}

Numbers up_to(std::int64_t n) {
  Numbers out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), std::int64_t{0});
  return out;
}

}  // namespace

TEST_CASE("a stream is read in batches, in its order", "[data]") {
  for (const std::int64_t prefetch : {0, 1, 3}) {
    CHECK(epoch_of(numbers(7), {.size = 3, .prefetch = prefetch}) ==
          std::vector<Numbers>{{0, 1, 2}, {3, 4, 5}, {6}});
    CHECK(epoch_of(numbers(7), {.size = 3, .drop_last = true, .prefetch = prefetch}) ==
          std::vector<Numbers>{{0, 1, 2}, {3, 4, 5}});
    CHECK(epoch_of(numbers(0), {.size = 3, .prefetch = prefetch}).empty());
  }
  Batches batches(numbers(4), {.size = 4});
  CHECK(epoch_of(batches).size() == 1);
  CHECK(batches.position() == data::Position{.seed = 0, .epoch = 1, .sample = 0});
  CHECK(batches.samples() == 0);
  CHECK_THROWS_AS(batches.size(), StateError);
}

TEST_CASE("workers and processes share a stream, without duplicates", "[data]") {
  for (const std::int64_t prefetch : {0, 2})
    for (const std::int64_t workers : {1, 2, 3})
      for (const int processes : {1, 2}) {
        Numbers all;
        for (int rank = 0; rank < processes; ++rank)
          for (const Numbers& batch : epoch_of(numbers(50), {.size = 4,
                                                             .shuffle_buffer = 5,
                                                             .shard = {rank, processes},
                                                             .prefetch = prefetch,
                                                             .workers = workers}))
            all.insert(all.end(), batch.begin(), batch.end());
        CHECK(sorted(all) == up_to(50));
      }
  // the batches of the workers in turn, without those that have ended
  CHECK(epoch_of(numbers(9), {.size = 2, .workers = 2}) ==
        std::vector<Numbers>{{0, 2}, {1, 3}, {4, 6}, {5, 7}, {8}});
  CHECK(epoch_of(numbers(5), {.size = 2, .workers = 4}) ==
        std::vector<Numbers>{{0, 4}, {1}, {2}, {3}});
}

TEST_CASE("a buffer shuffles a stream by seed and epoch", "[data]") {
  const auto order = [](std::uint64_t seed, std::int64_t epoch, std::int64_t buffer) {
    Batches batches(numbers(200), {.size = 10, .shuffle_buffer = buffer, .seed = seed});
    batches.set_epoch(epoch);
    return joined_numbers(epoch_of(batches));
  };
  const Numbers first = order(3, 0, 20);
  CHECK(sorted(first) == up_to(200));
  CHECK(first == order(3, 0, 20));
  CHECK(first != order(3, 1, 20));
  CHECK(first != order(4, 0, 20));
  CHECK(order(3, 0, 1) == up_to(200));
  std::int64_t earliest = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    CHECK(first[i] < static_cast<std::int64_t>(i) + 20);  // no later sample was read
    earliest = std::max(earliest, static_cast<std::int64_t>(i) - first[i]);
  }
  CHECK(earliest > 20);  // samples stay in the buffer for a while
  // each of the first 20 is drawn first about equally often
  std::vector<int> drawn(20);
  for (std::uint64_t seed = 0; seed < 1000; ++seed)
    ++drawn[static_cast<std::size_t>(order(seed, 0, 20)[0])];
  for (const int times : drawn) CHECK(std::abs(times - 50) < 35);
}

TEST_CASE("batches of a stream resume bit for bit", "[data]") {
  for (const std::int64_t workers : {1, 3})
    for (const std::int64_t buffer : {0, 7}) {
      const BatchOptions options{
          .size = 4, .shuffle_buffer = buffer, .seed = 9, .workers = workers};
      Batches whole(numbers(50), options);
      (void)epoch_of(whole);
      std::vector<Batch> all;
      std::vector<data::Position> positions;
      for (const Batch& batch : whole) {
        all.push_back(batch);
        positions.push_back(whole.position());
      }
      CHECK(positions.back().epoch == 1);
      for (std::size_t at = 0; at < all.size(); ++at)
        for (const std::int64_t prefetch : {0, 2}) {
          BatchOptions other = options;
          other.prefetch = prefetch;
          Batches resumed(numbers(50), other);
          resumed.resume(positions[at]);
          std::size_t next = at + 1;
          for (const Batch& batch : resumed) {
            REQUIRE(next < all.size());
            CHECK(equal(batch.x, all[next].x));
            CHECK(equal(batch.y, all[next].y));
            ++next;
          }
          CHECK(next == all.size());
          CHECK(resumed.position().epoch == 2);
        }
    }
}

TEST_CASE("random numbers of a stream depend on seed, epoch, part and sample only", "[data]") {
  Batches batches(numbers(8), {.size = 2, .seed = 4, .workers = 2});
  (void)epoch_of(batches);
  std::vector<float> noise(8);
  for (const Batch& batch : batches)
    for (std::int64_t i = 0; i < batch.size(); ++i)
      noise[static_cast<std::size_t>(batch.y[i].item<std::int64_t>())] =
          batch.x[i][0].item<float>();
  CHECK(std::set<float>(noise.begin(), noise.end()).size() == 8);
  // as documented: number 5 is sample 2 of part 1 of 2
  manual_seed(split(split(4, (std::uint64_t{1} << 33) + 1).seed, 2 * 2 + 1).seed);
  CHECK(noise[5] == rand({2})[0].item<float>());
}

TEST_CASE("a stream gets its part, and may have no end", "[data]") {
  struct Endless {
    StreamPart part;
    std::int64_t count = 0;
    std::optional<Sample> next() {
      return Sample{tensor(static_cast<double>(part.epoch)).view({1}),
                    tensor(part.index * 1000 + count++)};
    }
  };
  const StreamDataset set([](const StreamPart& part) {
    CHECK(part.seed == 6);
    CHECK(part.count == 4);
    return Endless{part};
  });
  Batches batches(set, {.size = 2, .seed = 6, .shard = {1, 2}, .workers = 2});
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<Numbers> seen;
    for (const Batch& batch : batches) {
      CHECK(batch.x.to_vector<int>() == std::vector<int>{epoch, epoch});
      seen.push_back(targets(batch));
      if (seen.size() == 3) break;
    }
    CHECK(seen == std::vector<Numbers>{{2000, 2001}, {3000, 3001}, {2002, 2003}});
    CHECK(batches.position().sample == 12);
  }
}

TEST_CASE("an error of a stream names the sample, and the next increment goes on", "[data]") {
  struct Broken {
    Count count;
    std::optional<Sample> next() {
      const std::int64_t value = count.next_one;
      std::optional<Sample> out = count.next();
      if (value == 5) fail<FormatError>("read(log.7)", {.what = "the line has no number"});
      return out;
    }
  };
  const StreamDataset set(
      [](const StreamPart& part) { return Broken{{part.index, part.count, 12}}; });
  for (const std::int64_t prefetch : {0, 2}) {
    Batches batches(set, {.size = 2, .prefetch = prefetch, .workers = 2});
    auto at = batches.begin();
    std::vector<Numbers> seen;
    int failures = 0;
    while (at != std::default_sentinel) {
      seen.push_back(targets(*at));
      for (bool again = true; again;) {
        again = false;
        try {
          ++at;
        } catch (const FormatError& error) {
          CHECK(std::string(error.what()) ==
                "batches(epoch 0, part 1 of 2)(sample 2): read(log.7): the line has no number");
          CHECK(batches.position().sample == 6);
          again = ++failures < 5;
        }
      }
    }
    CHECK(failures == 1);
    CHECK(seen == std::vector<Numbers>{{0, 2}, {1, 3}, {4, 6}, {7, 9}, {8, 10}, {11}});
  }
  const StreamDataset closed(
      [](const StreamPart&) -> Count { fail<IoError>("open", {.what = "no such file"}); });
  CHECK_THROWS_AS(epoch_of(closed, {}), IoError);
}

TEST_CASE("samples of a stream are collated", "[data]") {
  struct Growing {
    std::int64_t n = 0;
    std::optional<Sample> next() {
      if (n == 4) return {};
      return Sample{ones({++n}), {}};
    }
  };
  const StreamDataset set([](const StreamPart&) { return Growing{}; });
  CHECK_THROWS_WITH_AS_TEXT(Batches(set, {.size = 2}).begin(), ShapeError,
                            "batches(epoch 0, part 0 of 1)(sample 1): x differs from that of the "
                            "first sample of its batch");
  const auto longest = [](const std::vector<Sample>& samples) {
    return Batch{samples.back().x, {}};
  };
  std::vector<std::int64_t> sizes;
  for (const Batch& batch : Batches(set, {.size = 3, .collate = longest}))
    sizes.push_back(batch.size());
  CHECK(sizes == Numbers{3, 4});
}

TEST_CASE("a checkpoint has the position in a stream", "[data]") {
  const BatchOptions options{.size = 3, .shuffle_buffer = 4, .seed = 2, .workers = 2};
  Batches batches(numbers(40), options), resumed(numbers(40), options);
  const nn::Linear model(2, 1), other(2, 1);
  auto at = batches.begin();
  for (int i = 0; i < 4; ++i) ++at;
  const files::Directory folder = files::Directory::fast();
  amp::save_checkpoint(folder.path(), {.model = model, .loader = batches});
  amp::load_checkpoint(folder.path(), {.model = other, .loader = resumed});
  std::size_t rest = 0;
  for (const Batch& batch : resumed) {
    ++at;
    CHECK(equal(batch.x, at->x));
    CHECK(equal(batch.y, at->y));
    ++rest;
  }
  CHECK(rest == 9);
}

TEST_CASE("options and positions that a stream does not have are refused", "[data]") {
  const StreamDataset set = numbers(20);
  CHECK_THROWS_AS(Batches(set, {.size = 0}), ValueError);
  CHECK_THROWS_AS(Batches(set, {.workers = 0}), ValueError);
  CHECK_THROWS_AS(Batches(set, {.shuffle_buffer = -1}), ValueError);
  CHECK_THROWS_AS(Batches(set, {.exact = true}), ValueError);
  CHECK_THROWS_AS(Batches(set, {.sampler = data::RandomSampler{}}), ValueError);
  CHECK_THROWS_AS(Batches(set, {.size = INT64_MAX}), ValueError);
  CHECK_THROWS_AS(Batches(data::Dataset(ones({4, 1}), ones({4})), {.shuffle_buffer = 2}),
                  ValueError);
  Batches batches(set, {.size = 4, .shard = {0, 2}});
  CHECK_THROWS_WITH_AS_TEXT(batches.resume({.sample = 4}), ValueError,
                            "resume: the position is inside a batch; got sample 4, expected a "
                            "multiple of 8");
  CHECK_THROWS_AS(batches.resume({.sample = -8}), ValueError);
  batches.resume({.sample = 8000});  // beyond the end: the epoch has no more batches
  CHECK(epoch_of(batches).empty());
}
