#include "sampler.h"

#include <algorithm>
#include <numeric>

#include "../../tensor/core/error.h"
#include "../../tensor/ops/random/random.h"
#include "../../tensor/random/draw.h"
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
  if (weights.size() != static_cast<std::size_t>(size))
    fail<ValueError>("WeightedRandomSampler",
                     {.what = "the weights do not fit the data set",
                      .got = str(weights.size(), " weights"),
                      .expected = str("one for each of ", size, " samples")});
  const GeneratorScope own(generator);
  return multinomial(tensor(weights, {.dtype = DType::f64}), num_samples,
                     {.replacement = replacement})
      .to_vector<std::int64_t>();
}

}  // namespace mezzo::data
