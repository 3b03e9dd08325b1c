#include "subset.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "../../tensor/text/text.h"
#include "sampler.h"

namespace mezzo::data {

namespace {

constexpr const char* kSplit = "random_split";

/** Returns the sizes as numbers of samples. */
std::vector<std::int64_t> as_counts(const std::vector<PartSize>& sizes) {
  std::vector<std::int64_t> counts;
  for (const PartSize& size : sizes) {
    if (size.index() != sizes[0].index())
      fail<ValueError>(kSplit, {.what = "numbers of samples are mixed with fractions",
                                .expected = "all of one kind, such as {80, 20} or {0.8, 0.2}"});
    if (const auto* count = std::get_if<std::int64_t>(&size)) counts.push_back(*count);
  }
  return counts;
}

std::vector<std::int64_t> counts_of_fractions(const std::vector<PartSize>& sizes, std::int64_t n) {
  double sum = 0;
  for (const PartSize& size : sizes) {
    const double fraction = std::get<double>(size);
    if (!(fraction >= 0 && fraction <= 1))
      fail<ValueError>(kSplit,
                       {.what = "invalid fraction", .got = str(fraction), .expected = "0..1"});
    sum += fraction;
  }
  if (!(std::abs(sum - 1) <= 1e-9))
    fail<ValueError>(kSplit,
                     {.what = "wrong sum of the fractions", .got = str(sum), .expected = "1"});
  std::vector<std::int64_t> counts;
  std::int64_t rest = n;
  for (const PartSize& size : sizes) {
    const auto count = static_cast<std::int64_t>(static_cast<double>(n) * std::get<double>(size));
    counts.push_back(std::min(count, rest));
    rest -= counts.back();
  }
  for (std::size_t i = 0; rest > 0; i = (i + 1) % counts.size(), --rest) ++counts[i];
  return counts;
}

void require_sum(const std::vector<std::int64_t>& counts, std::int64_t n) {
  std::int64_t rest = n;
  for (const std::int64_t count : counts) {
    if (count < 0)
      fail<ValueError>(
          kSplit,
          {.what = "negative number of samples", .got = str(count), .expected = "0 or more"});
    rest = rest < count ? -1 : rest - count;
    if (rest < 0) break;
  }
  if (rest == 0) return;
  std::string list;
  for (const std::int64_t count : counts) list += (list.empty() ? "" : " + ") + str(count);
  fail<ValueError>(kSplit, {.what = "the sizes do not add up to that of the data set",
                            .got = list,
                            .expected = str(n, " samples")});
}

}  // namespace

Subset::Subset(AnyDataset set, std::vector<std::int64_t> indices)
    : set_(std::move(set)), indices_(std::move(indices)) {
  const std::int64_t size = set_.size();
  for (const std::int64_t index : indices_) detail::require_sample("Subset", index, size);
}

Sample Subset::get(std::int64_t index) const {
  detail::require_sample("Subset::get", index, size());
  return set_.get(indices_[static_cast<std::size_t>(index)]);
}

ConcatDataset::ConcatDataset(std::vector<AnyDataset> sets) : sets_(std::move(sets)) {
  if (sets_.empty())
    fail<ValueError>("ConcatDataset", {.what = "no data sets", .expected = "at least one"});
  std::int64_t end = 0;
  for (const AnyDataset& set : sets_) ends_.push_back(end += set.size());
}

Sample ConcatDataset::get(std::int64_t index) const {
  detail::require_sample("ConcatDataset::get", index, size());
  const auto set =
      static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) - ends_.begin());
  return sets_[set].get(index - (set == 0 ? 0 : ends_[set - 1]));
}

std::vector<Subset> random_split(const AnyDataset& set, const std::vector<PartSize>& sizes,
                                 std::uint64_t seed) {
  if (sizes.empty()) fail<ValueError>(kSplit, {.what = "no sizes", .expected = "at least one"});
  const std::int64_t n = set.size();
  std::vector<std::int64_t> counts = as_counts(sizes);
  if (counts.empty()) counts = counts_of_fractions(sizes, n);
  require_sum(counts, n);
  const std::vector<std::int64_t> order = RandomSampler{}(n, split(seed, 0));
  std::vector<Subset> parts;
  auto from = order.begin();
  for (const std::int64_t count : counts) {
    parts.emplace_back(set, std::vector<std::int64_t>(from, from + count));
    from += count;
  }
  return parts;
}

}  // namespace mezzo::data
