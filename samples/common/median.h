// median and quantiles of measurements.
// Sees: the standard library.
// Read next: run.cpp, ../bench/stopwatch.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

namespace samples {

/** The value below which a share of the others lies; 0 where there is none. */
inline double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  const auto rank =
      std::min(values.size() - 1, static_cast<std::size_t>(share * static_cast<double>(values.size())));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

}  // namespace samples
