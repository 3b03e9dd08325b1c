// Data, metrics, random numbers and the log of processes that train together. Run by ../ranks.sh.
#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "../support/catch.h"
#include "../support/throws.h"
#include "expected.h"

using namespace mezzo;
using namespace mezzo::testing;

namespace {

constexpr std::int64_t kSamples = 101;

/** Sample i has the value i and the label i % 3. */
data::Dataset numbered() {
  const Tensor x = empty({kSamples}), y = empty({kSamples}, {.dtype = i64});
  for (std::int64_t i = 0; i < kSamples; ++i) {
    x.data<float>()[i] = static_cast<float>(i);
    y.data<std::int64_t>()[i] = i % 3;
  }
  return {x, y};
}

std::int64_t right_of(const Batch& batch) {
  return sum((batch.y == 0.0).to(i64)).item<std::int64_t>();
}

}  // namespace

TEST_CASE("the shards of a world divide a data set", "[data]") {
  const auto c = world().all();
  const data::Dataset set = numbered();
  std::vector<double> all;
  data::Batches batches =
      set.batches({.size = 4, .seed = 5, .shard = world().shard(), .exact = true});
  for (const Batch& batch : batches) {
    std::vector<double> places(4, -1);  // as many as the others pass
    const std::vector<double> mine = batch.x.to_vector<double>();
    std::copy(mine.begin(), mine.end(), places.begin());
    for (const double place : c.gather(places))
      if (place >= 0) all.push_back(place);
  }
  std::vector<double> order;
  for (const Batch& batch : set.batches({.size = kSamples, .seed = 5}))
    order = batch.x.to_vector<double>();
  CHECK(all == order);
}

TEST_CASE("an exact evaluation counts what one process counts", "[data]") {
  comm::Mean accuracy(world().all()), loss(world().all());
  for (const std::int64_t size : {1, 7, 64}) {
    accuracy.reset();
    loss.reset();
    for (const Batch& batch :
         numbered().batches({.size = size, .shard = world().shard(), .exact = true})) {
      accuracy.add(static_cast<double>(right_of(batch)), batch.size());
      // the mean of a batch of none is NaN
      loss.add(mean(batch.x).item<double>() * static_cast<double>(batch.size()), batch.size());
    }
    CHECK(accuracy.value() == 34.0 / kSamples);
    CHECK(std::fabs(loss.value() - 50) < 1e-3);
  }
}

TEST_CASE("metrics of all ranks are those of one process, bit for bit", "[metrics]") {
  const auto c = world().all();
  const comm::Communicator alone;
  manual_seed(5);
  const Tensor scores = randn({37, 4}), classes = arange(37).to(i64) % 4;
  // Rank r has rows r, r + size, ...; the last rank has none.
  const int parts = std::max(1, c.size() - 1);
  const auto mine = [&](const Tensor& x) {
    return c.rank() == parts ? x.narrow(0, 0, 0) : x.slice(0, c.rank(), x.size(0), parts);
  };
  const auto check = [&](auto ours, auto whole, const Tensor& preds, const Tensor& target) {
    if (c.rank() != parts) ours.update(mine(preds), mine(target));
    whole.update(preds, target);
    const Tensor got = ours.compute(), wanted = whole.compute();
    CHECK(got.shape() == wanted.shape());
    CHECK(allclose(got.to(f64), wanted.to(f64), {.rtol = 1e-12}));
    for (const double value : c.gather(std::vector{sum(got.to(f64)).item()}))
      CHECK(value == sum(got.to(f64)).item());
  };
  using namespace metrics;
  check(Accuracy({.num_classes = 4}), Accuracy({.num_classes = 4, .comm = alone}), scores, classes);
  check(F1Score({.num_classes = 4, .average = Average::macro}),
        F1Score({.num_classes = 4, .average = Average::macro, .comm = alone}), scores, classes);
  check(ConfusionMatrix({.num_classes = 4}), ConfusionMatrix({.num_classes = 4, .comm = alone}),
        scores, classes);
  check(AUROC({.num_classes = 4}), AUROC({.num_classes = 4, .comm = alone}), scores, classes);
  const Tensor labels = one_hot(classes, 4);
  check(F1Score({.num_labels = 4}), F1Score({.num_labels = 4, .comm = alone}), scores, labels);
  check(AUROC({.num_labels = 4}), AUROC({.num_labels = 4, .comm = alone}), scores, labels);
  check(Perplexity(), Perplexity({.comm = alone}), scores.unsqueeze(1), classes.unsqueeze(1));
  check(R2Score(), R2Score({.comm = alone}), scores, scores * 0.5 + 1);

  MeanMetric mean;
  mean.update(c.rank() + 1, c.rank());
  double sum = 0, weight = 0;
  for (int r = 0; r < c.size(); ++r) {
    sum += (r + 1) * r;
    weight += r;
  }
  if (c.size() > 1) CHECK(mean.compute().item() == sum / weight);
}

TEST_CASE("a mean of all ranks", "[mean]") {
  const auto c = world().all();
  const int ranks = c.size(), rank = c.rank();
  comm::Mean mean(c);
  CHECK(std::isnan(mean.value()));
  mean.add(0, 0);
  mean.add(std::nan(""), 0);
  CHECK(std::isnan(mean.value()));

  for (int i = 0; i < 3; ++i) mean.add(rank == 0 ? 0 : 0.1 * (rank + 1), rank);
  double sum = 0, count = 0;
  for (int r = 0; r < ranks; ++r) {
    double own = 0;
    for (int i = 0; i < 3 && r > 0; ++i) own += 0.1 * (r + 1);
    sum += own;
    count += 3 * r;
  }
  if (ranks > 1) {
    const double value = mean.value();
    CHECK(value == sum / count);
    CHECK(c.gather({&value, 1}) == std::vector(static_cast<std::size_t>(ranks), value));
  }

  mean.reset();
  CHECK(std::isnan(mean.value()));
  mean.add(rank == 0 ? 0x1p53 - 4 : 1, 1);  // exact up to 2^53
  CHECK(mean.value() == (0x1p53 - 4 + (ranks - 1)) / ranks);
  mean.add(rank == ranks - 1 ? std::numeric_limits<double>::infinity() : 0, 1);
  CHECK(std::isinf(mean.value()));
}

TEST_CASE("wrong sums of a mean are refused", "[mean]") {
  comm::Mean mean(world().all());
  CHECK_THROWS_WITH_AS_TEXT(mean.add(1, -1), ValueError,
                            "Mean::add: the count is negative; got -1");
  CHECK_THROWS_WITH_AS_TEXT(mean.add(0.5, 0), ValueError,
                            "Mean::add: the sum of no numbers is not 0; got 0.5, expected 0");
  mean.add(3, 1);
  CHECK(mean.value() == 3);
}

TEST_CASE("ranks draw random numbers of their own, whatever their number", "[data]") {
  const auto c = world().all();
  manual_seed(7);
  const double before = randn({1}).item<double>();
  CHECK(c.max(before) == -c.max(-before));
  use_own_random_stream(default_generator(), c.rank());
  CHECK(default_generator() == split(7, 0x100000000u + static_cast<std::uint64_t>(c.rank())));
  const std::vector<double> all = c.gather(randn({4}).to_vector<double>());
  CHECK(std::set<double>(all.begin(), all.end()).size() == all.size());
}

TEST_CASE("the log knows the rank, and the first rank is the main one", "[data]") {
  CHECK(log_rank() == world().rank());
  CHECK(world().is_main() == (world().rank() == 0));
}
