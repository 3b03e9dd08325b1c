// Timing that is robust against noise: medians over many rounds, with interleaved candidates.
#pragma once

#include <mezzo.h>

#include <utility>
#include <vector>

#include "../../measure/stopwatch.h"

namespace samples {

using mezzo::median_of;
using mezzo::seconds;

/** Returns the median over rounds of the seconds per call of f, with `calls` calls in a round,
 *  after one round of warm-up. */
template <class F> double median_seconds(int rounds, int calls, F&& f) {
  std::vector<double> times;
  for (int r = 0; r <= rounds; ++r) {
    const double t = seconds([&] {
      for (int i = 0; i < calls; ++i) f();
    });
    if (r > 0) times.push_back(t / calls);
  }
  return median_of(times);
}

/** Returns the median seconds of f and of g, with alternating calls, so that both run under the
 *  same conditions. */
template <class F, class G>
std::pair<double, double> interleaved_seconds(int rounds, F&& f, G&& g) {
  std::vector<double> first, second;
  f();
  g();
  for (int r = 0; r < rounds; ++r) {
    first.push_back(seconds(f));
    second.push_back(seconds(g));
  }
  return {median_of(first), median_of(second)};
}

}  // namespace samples
