#include "sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "../../tensor/core/error.h"
#include "../../tensor/random/philox.h"
#include "../../tensor/text/text.h"

namespace mezzo::data {

namespace {

using Order = std::vector<std::int64_t>;

/** The 64-bit words of a draw. */
class Words {
 public:
  explicit Words(PhiloxStream stream) : stream_(stream) {}

  /** Returns uniform_below(n) from word i. */
  std::uint64_t below(std::uint64_t n, std::size_t i) const {
    const PhiloxBlock block = philox_block(stream_, i / 2);
    return uniform_below(n, block.word[2 * (i % 2)], block.word[2 * (i % 2) + 1]);
  }
  /** Returns a uniform number in [0,1) from word i. */
  double uniform(std::size_t i) const {
    const PhiloxBlock block = philox_block(stream_, i / 2);
    return uniform_f64(block.word[2 * (i % 2)], block.word[2 * (i % 2) + 1]);
  }

 private:
  PhiloxStream stream_;
};

Order ascending(std::int64_t size) {
  Order order(static_cast<std::size_t>(size));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  return order;
}

Order shuffled(std::int64_t size, const Words& words) {
  Order order = ascending(size);
  for (std::size_t i = order.size(); i-- > 1;) std::swap(order[i], order[words.below(i + 1, i)]);
  return order;
}

[[noreturn]] void refuse(const char* what, const std::string& got, const std::string& expected) {
  fail<ValueError>("WeightedRandomSampler", {.what = what, .got = got, .expected = expected});
}

/** Returns the sums of the first 1, 2, ... weights. */
std::vector<double> cumulative(const std::vector<double>& weights, std::int64_t size) {
  if (weights.size() != static_cast<std::size_t>(size))
    refuse("the weights do not fit the data set", str(weights.size(), " weights"),
           str("one for each of ", size, " samples"));
  std::vector<double> sums;
  double sum = 0;
  for (const double weight : weights) {
    if (!(weight >= 0)) refuse("invalid weight", str(weight), "at least 0");
    sums.push_back(sum += weight);
  }
  if (!(sum > 0) || !std::isfinite(sum))
    refuse("invalid sum of the weights", str(sum), "a positive number");
  return sums;
}

/** Returns the samples in the order of E / weight, those of weight 0 last. */
Order by_arrival(const std::vector<double>& weights, const Words& words) {
  std::vector<double> arrival;
  for (std::size_t i = 0; i < weights.size(); ++i)
    arrival.push_back(-mezzo::detail::strict_log(words.uniform(i) + 0x1p-53).v / weights[i]);
  Order order = ascending(static_cast<std::int64_t>(weights.size()));
  std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    const auto i = static_cast<std::size_t>(a), j = static_cast<std::size_t>(b);
    if ((weights[i] > 0) != (weights[j] > 0)) return weights[i] > 0;
    return weights[i] > 0 && arrival[i] < arrival[j];
  });
  return order;
}

}  // namespace

Order SequentialSampler::operator()(std::int64_t size, const Generator&) const {
  return ascending(size);
}

Order RandomSampler::operator()(std::int64_t size, const Generator& generator) const {
  const std::int64_t count = num_samples.value_or(size);
  if (count < 0)
    fail<ValueError>(
        "RandomSampler",
        {.what = "invalid number of samples", .got = str(count), .expected = "at least 0"});
  Generator draws = generator;
  Order order;
  if (replacement) {
    const Words words(draws.next_stream());
    for (std::int64_t i = 0; i < count; ++i)
      order.push_back(static_cast<std::int64_t>(
          words.below(static_cast<std::uint64_t>(size), static_cast<std::size_t>(i))));
    return order;
  }
  while (size > 0 && static_cast<std::int64_t>(order.size()) < count) {
    const Order more = shuffled(size, Words(draws.next_stream()));
    const std::int64_t wanted = count - static_cast<std::int64_t>(order.size());
    order.insert(order.end(), more.begin(), more.begin() + std::min(size, wanted));
  }
  return order;
}

Order WeightedRandomSampler::operator()(std::int64_t size, const Generator& generator) const {
  const std::vector<double> sums = cumulative(weights, size);
  const std::int64_t most =
      replacement ? std::numeric_limits<std::int64_t>::max()
                  : std::count_if(weights.begin(), weights.end(), [](double w) { return w > 0; });
  if (num_samples < 1 || num_samples > most)
    refuse("invalid number of samples", str(num_samples),
           replacement ? "at least 1" : str("1..", most, ", without replacement"));
  Generator draws = generator;
  const Words words(draws.next_stream());
  if (!replacement) {
    Order order = by_arrival(weights, words);
    order.resize(static_cast<std::size_t>(num_samples));
    return order;
  }
  // Rounding may take a product up to the sum itself, which belongs to the last sample drawn.
  const auto last = std::lower_bound(sums.begin(), sums.end(), sums.back());
  Order order;
  for (std::int64_t i = 0; i < num_samples; ++i) {
    const double at = words.uniform(static_cast<std::size_t>(i)) * sums.back();
    order.push_back(std::min(std::upper_bound(sums.begin(), sums.end(), at), last) - sums.begin());
  }
  return order;
}

}  // namespace mezzo::data
