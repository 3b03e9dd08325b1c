// Median and quantiles of measurements.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace samples {

/** Returns the quantile of the values at `share` in 0..1; 0 if there are no values. */
inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank = std::min(values.size() - 1,
                             static_cast<std::size_t>(share * static_cast<double>(values.size())));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace samples
