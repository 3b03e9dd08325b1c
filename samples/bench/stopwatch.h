// Timing that survives a noisy machine: many rounds, medians, competitors interleaved.
// Sees: median.h.
// Read next: micro.cpp.
#pragma once

#include <chrono>
#include <utility>
#include <vector>

#include "../common/median.h"

namespace samples {

/** Seconds for one call of f(). */
template <class F> double seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/** Median over rounds of the seconds per call of f, `calls` to a round, after one round of warm-up. */
template <class F> double median_seconds(int rounds, int calls, F&& f) {
  std::vector<double> times;
  for (int r = 0; r <= rounds; ++r) {
    const double t = seconds([&] {
      for (int i = 0; i < calls; ++i) f();
    });
    if (r > 0) times.push_back(t / calls);
  }
  return median(times);
}

/** Medians of two competitors whose calls alternate, so that both meet the same state of the machine. */
template <class F, class G> std::pair<double, double> interleaved_seconds(int rounds, F&& f, G&& g) {
  std::vector<double> first, second;
  f();
  g();
  for (int r = 0; r < rounds; ++r) {
    first.push_back(seconds(f));
    second.push_back(seconds(g));
  }
  return {median(first), median(second)};
}

}  // namespace samples
