// Median, quantiles, and a confidence interval of the median.
#pragma once

#include <limits>
#include <vector>

#include "../tensor/core/macros.h"

namespace mezzo {

/** Returns the value that follows floor(share n) others when the n values are sorted, or the
 * largest one; 0 if there are no values. `share` is in 0..1. */
MZ_API double quantile_of(std::vector<double> values, double share);

/** Returns the middle value, or the mean of the two middle ones; 0 if there are no values. */
MZ_API double median_of(std::vector<double> values);

/** A median and an interval that contains the true median with at least 95 % confidence. */
struct MZ_API MedianInterval {
  double value = 0;  // the median of the sample
  /** Lower end; minus infinity with fewer than 6 values. */
  double low = -std::numeric_limits<double>::infinity();
  /** Upper end; infinity with fewer than 6 values. */
  double high = std::numeric_limits<double>::infinity();

  /** Returns (high - low) / value: 0.1 means that the interval is a tenth of the median wide. */
  double relative_width() const;
};

/** Returns the median and its 95 % confidence interval, for independent values of any distribution.
 *  The interval is from the k-th smallest to the k-th largest value, with the largest k for which
 *  1 - 2 P(B < k) >= 0.95, where B has the binomial distribution of n fair coins: B values lie
 * below the true median (W. J. Conover, Practical Nonparametric Statistics, 1999, section 3.2). */
MZ_API MedianInterval median_interval(std::vector<double> values);

}  // namespace mezzo
