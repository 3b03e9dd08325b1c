#include "statistics.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace mezzo {

double quantile_of(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = std::min(values.size() - 1,
                             static_cast<std::size_t>(share * static_cast<double>(values.size())));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double median_of(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

double MedianInterval::relative_width() const { return (high - low) / value; }

namespace {

/** Returns the largest k for which a binomial variable of n fair coins is below k with a
 *  probability of at most 0.025; 0 if there is none. */
std::size_t rank_of_interval(std::size_t n) {
  const auto coins = static_cast<double>(n);
  double below = 0;  // P(B < k)
  for (std::size_t k = 0; k < n; ++k) {
    const auto heads = static_cast<double>(k);
    // P(B = k); its logarithm, because 2^-n underflows
    below += std::exp(std::lgamma(coins + 1) - std::lgamma(heads + 1) -
                      std::lgamma(coins - heads + 1) - coins * std::log(2.0));
    if (below > 0.025) return k;
  }
  return 0;
}

}  // namespace

MedianInterval median_interval(std::vector<double> values) {
  MedianInterval result;
  result.value = median_of(values);
  const std::size_t k = rank_of_interval(values.size());
  if (k == 0) return result;
  std::sort(values.begin(), values.end());
  result.low = values[k - 1];
  result.high = values[values.size() - k];
  return result;
}

}  // namespace mezzo
