// Batches that several processes divide: which samples each gets, and how a run resumes. The
// processes are played one after the other; ../comm/data.cpp has real ones.
#include <algorithm>
#include <string>

#include "../../nn/data/dataset.h"
#include "../../tensor/ops/ops.h"
#include "../../tensor/text/log.h"
#include "../support/catch.h"
#include "../support/numbered.h"
#include "../support/throws.h"

using namespace mezzo;
using data::Batches;
using data::BatchOptions;
using data::Dataset;
using data::Position;

namespace {

using Samples = std::vector<std::int64_t>;

/** Returns the samples of a batch. */
Samples samples_of(const Batch& batch) {
  const Samples y = batch.y.to_vector<std::int64_t>(), x = batch.x.to_vector<std::int64_t>();
  REQUIRE(batch.size() == static_cast<std::int64_t>(y.size()));
  for (std::size_t i = 0; i < y.size(); ++i) {
    REQUIRE(x[2 * i] == y[i]);
    REQUIRE(x[2 * i + 1] == 10 * y[i]);
  }
  return y;
}

/** The batches of an epoch. */
std::vector<Samples> epoch_samples(Batches& batches) {
  std::vector<Samples> out;
  for (const Batch& batch : batches) out.push_back(samples_of(batch));
  return out;
}

std::vector<Samples> epoch_samples(const Dataset& set, const BatchOptions& options) {
  Batches batches = set.batches(options);
  return epoch_samples(batches);
}

BatchOptions shard(BatchOptions options, int index, int count) {
  options.shard = {index, count};
  return options;
}

/** The batches of an epoch of all processes: those of process 0, 1, ... in turn. Positions and
 *  numbers of batches must be equal. */
std::vector<Samples> epoch_in_turn(std::vector<Batches>& processes) {
  std::vector<Samples> out;
  std::vector<Batches::Iterator> at;
  for (Batches& process : processes) at.push_back(process.begin());
  for (;;) {
    for (std::size_t r = 1; r < at.size(); ++r) {
      REQUIRE(processes[r].position() == processes[0].position());
      REQUIRE((at[r] == std::default_sentinel) == (at[0] == std::default_sentinel));
    }
    if (at[0] == std::default_sentinel) return out;
    for (Batches::Iterator& process : at) {
      out.push_back(samples_of(*process));
      ++process;
    }
  }
}

std::vector<Batches> processes(const Dataset& set, const BatchOptions& options, int count) {
  std::vector<Batches> out;
  for (int r = 0; r < count; ++r) out.push_back(set.batches(shard(options, r, count)));
  return out;
}

Samples joined_samples(const std::vector<Samples>& batches) {
  Samples out;
  for (const Samples& batch : batches) out.insert(out.end(), batch.begin(), batch.end());
  return out;
}

/** The order of an epoch. */
Samples order_of(const Dataset& set, const BatchOptions& options, std::int64_t number = 0) {
  Batches alone =
      set.batches({.size = set.size(), .shuffle = options.shuffle, .seed = options.seed});
  alone.set_epoch(number);
  return joined_samples(epoch_samples(alone));
}

/** Returns what `count` processes use of an order: without `exact`, full batches of each. */
Samples used_of(Samples order, const BatchOptions& options, int count) {
  if (count > 1 && !options.exact)
    order.resize(order.size() - order.size() % static_cast<std::size_t>(options.size * count));
  return order;
}

/** Collects the lines of the log. */
class Lines {
 public:
  Lines()
      : outer_(set_log_sink([this](Severity, std::string_view line) { text.emplace_back(line); })) {
  }
  ~Lines() { set_log_sink(outer_); }
  Lines(const Lines&) = delete;
  Lines& operator=(const Lines&) = delete;

  std::vector<std::string> text;

 private:
  LogSink outer_;
};

}  // namespace

TEST_CASE("processes in turn have the batches of one that accumulates", "[shards]") {
  const Lines quiet;
  int combinations = 0;
  for (const std::int64_t n : {1, 2, 7, 12, 24, 25, 47, 48, 100})
    for (const std::int64_t size : {1, 2, 3, 4, 8})
      for (const int count : {1, 2, 3, 4, 5, 8}) {
        if (n < size * count) continue;
        ++combinations;
        INFO(n << " samples, size " << size << ", " << count << " processes");
        const Dataset set = numbered(n);
        const BatchOptions options{.size = size, .seed = 7, .drop_last = true, .prefetch = 0};
        std::vector<Batches> all = processes(set, options, count);
        Batches alone = set.batches(options);
        for (int number = 0; number < 2; ++number) {
          std::vector<Samples> expected = epoch_samples(alone);
          expected.resize(expected.size() / static_cast<std::size_t>(count) *
                          static_cast<std::size_t>(count));
          CHECK(epoch_in_turn(all) == expected);
        }
        for (const Batches& one : all) {
          CHECK(one.size() == n / (size * count));
          CHECK(one.samples() == n);
        }
      }
  CHECK(combinations > 100);
}

TEST_CASE("processes use all samples but the rest, each once", "[shards]") {
  const Lines quiet;
  for (const std::int64_t n : {16, 17, 23, 50})
    for (const int count : {2, 3, 4}) {
      const Dataset set = numbered(n);
      std::vector<Batches> all = processes(set, {.size = 4, .seed = 3}, count);
      Samples used = joined_samples(epoch_in_turn(all));
      CHECK(used == used_of(order_of(set, {.seed = 3}), {.size = 4}, count));
      std::sort(used.begin(), used.end());
      CHECK(std::adjacent_find(used.begin(), used.end()) == used.end());
    }
}

TEST_CASE("exact batches of all processes are the data set", "[shards]") {
  for (const std::int64_t n : {1, 2, 3, 7, 8, 9, 24, 25, 31, 100})
    for (const std::int64_t size : {1, 2, 4, 7, 200})
      for (const int count : {1, 2, 3, 4, 8})
        for (const std::int64_t prefetch : {0, 2}) {
          INFO(n << " samples, size " << size << ", " << count << " processes");
          const Dataset set = numbered(n);
          const BatchOptions options{.size = size, .seed = 5, .exact = true, .prefetch = prefetch};
          std::vector<Batches> all = processes(set, options, count);
          const std::vector<Samples> batches = epoch_in_turn(all);
          CHECK(joined_samples(batches) == order_of(set, options));
          const auto processes = static_cast<std::size_t>(count);
          REQUIRE(batches.size() % processes == 0);
          CHECK(all[0].size() == static_cast<std::int64_t>(batches.size() / processes));
          for (std::size_t i = 0; i < batches.size(); i += processes) {
            const std::size_t most = batches[i].size(), least = batches[i + processes - 1].size();
            CHECK(most <= static_cast<std::size_t>(size));
            if (i + processes < batches.size()) CHECK(least == static_cast<std::size_t>(size));
            CHECK(most - least <= 1);
            CHECK(most > 0);
          }
        }
}

TEST_CASE("a process without samples gets a batch of none", "[shards]") {
  for (const std::int64_t prefetch : {0, 2}) {
    Batches last = numbered(9).batches(
        {.size = 2, .shuffle = false, .shard = {3, 4}, .exact = true, .prefetch = prefetch});
    int count = 0;
    for (const Batch& batch : last)
      if (++count == 2) {
        CHECK(batch.size() == 0);
        CHECK(batch.x.shape() == Shape{0, 2});
        CHECK(batch.y.shape() == Shape{0});
        CHECK(batch.x.dtype() == f32);
        CHECK(batch.y.dtype() == i64);
      }
    CHECK(count == 2);
    CHECK(last.position() == Position{.epoch = 1});
  }
}

TEST_CASE("one process has the same batches with and without exact", "[shards]") {
  for (const std::int64_t n : {1, 5, 8, 9}) {
    const Dataset set = numbered(n);
    CHECK(epoch_samples(set, {.size = 4, .seed = 2, .exact = true}) ==
          epoch_samples(set, {.size = 4, .seed = 2}));
    CHECK(set.batches({.size = 4, .exact = true}).size() == set.batches({.size = 4}).size());
  }
}

TEST_CASE("a run of some processes resumes with others at the same place of the order",
          "[shards]") {
  const Lines quiet;
  const Dataset set = numbered(50);
  for (const bool exact : {false, true})
    for (const int before : {1, 2, 3, 4})
      for (const int after : {1, 2, 3, 4})
        for (const std::int64_t size : {2, 3})  // of the processes that resume
          for (const int steps : {0, 1, 3, 4}) {
            INFO(before << " to " << after << " processes after " << steps << " steps, exact "
                        << exact);
            const BatchOptions saved{.size = 3, .seed = 11, .exact = exact, .prefetch = 0};
            std::vector<Batches> first = processes(set, saved, before);
            for (Batches& process : first) (void)epoch_samples(process);
            for (Batches& process : first) {
              if (steps == 0) continue;
              auto at = process.begin();
              for (int step = 1; step < steps; ++step) ++at;
            }
            const Position position = first[0].position();
            CHECK(position == Position{.seed = 11, .epoch = 1, .sample = steps * 3 * before});
            for (const Batches& process : first) CHECK(process.position() == position);

            const BatchOptions options{.size = size, .seed = 1, .exact = exact, .prefetch = 0};
            std::vector<Batches> second = processes(set, options, after);
            for (Batches& process : second) process.resume(position);
            Samples rest = order_of(set, saved, 1);
            rest.erase(rest.begin(), rest.begin() + position.sample);
            CHECK(joined_samples(epoch_in_turn(second)) == used_of(rest, options, after));
            CHECK(second[0].position() == Position{.seed = 11, .epoch = 2});
            CHECK(joined_samples(epoch_in_turn(second)) ==
                  used_of(order_of(set, saved, 2), options, after));
          }
}

TEST_CASE("a position at the end of an epoch resumes with the next", "[shards]") {
  const Lines quiet;
  const Dataset set = numbered(20);
  std::vector<Batches> all = processes(set, {.size = 4}, 2);
  for (Batches& process : all) {
    process.resume({.seed = 0, .epoch = 3, .sample = 16});  // the rest fills no batch of both
    CHECK(epoch_samples(process).empty());
    CHECK(process.position() == Position{.epoch = 4});
    CHECK_THROWS_WITH_AS_TEXT(process.resume({.sample = 21}), ValueError,
                              "resume: the position is outside the data set; got sample 21, "
                              "expected 0..20");
  }
}

TEST_CASE("samples that are left out are logged once", "[shards]") {
  Lines log;
  Batches batches = numbered(23).batches({.size = 4, .shard = {1, 2}});
  epoch_samples(batches);
  epoch_samples(batches);
  CHECK(log.text == std::vector<std::string>{
                        "batches: 7 of 23 samples are left out of each epoch, since they do not "
                        "fill a batch of size 4 for each of 2 processes"});
  log.text.clear();
  const Dataset set = numbered(23);
  epoch_samples(set, {.size = 4, .drop_last = true, .shard = {1, 2}});
  epoch_samples(set, {.size = 4, .shard = {1, 2}, .exact = true});
  epoch_samples(set, {.size = 4});
  epoch_samples(set, {.size = 4, .drop_last = true});
  epoch_samples(numbered(24), {.size = 4, .shard = {1, 2}});
  CHECK(log.text.empty());
}

TEST_CASE("bad shards are refused", "[shards]") {
  const Dataset set = numbered(10);
  const auto refused = [&](const BatchOptions& options, const char* text) {
    CHECK_THROWS_WITH_AS_TEXT(set.batches(options), ValueError, text);
  };
  const char* const index = "batches: invalid shard; got index 2 of 2, expected an index below";
  refused({.size = 1, .shard = {2, 2}}, index);
  refused({.size = 1, .shard = {-1, 2}}, "got index -1 of 2");
  refused({.size = 1, .shard = {0, 0}}, "got index 0 of 0");
  refused({.size = 1, .shard = {0, -1}}, "got index 0 of -1");
  refused({.size = 1, .drop_last = true, .exact = true},
          "batches: exact and drop_last contradict each other");
  const char* const small =
      "batches: no full batch for each process in the data set; got 10 samples for 2 processes "
      "with size 6, expected at least one full batch for each; reduce size, or set exact for an "
      "evaluation";
  refused({.size = 6, .shard = {0, 2}}, small);
  refused({.size = 6, .drop_last = true, .shard = {1, 2}}, small);
  refused({.size = std::int64_t{1} << 62, .shard = {1, 2}}, "no full batch for each process");
  CHECK(set.batches({.size = 5, .shard = {1, 2}}).size() == 1);
  CHECK(set.batches({.size = 6, .shard = {0, 2}, .exact = true}).size() == 1);
  CHECK(set.batches({.size = std::int64_t{1} << 62, .shard = {0, 2}, .exact = true}).size() == 1);
  CHECK(set.batches({.size = std::int64_t{1} << 62}).size() == 1);
}
