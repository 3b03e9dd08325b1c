// The rows of a matrix packed so that the distances of one vector to many rows are computed in
// parallel.
#pragma once

#include <algorithm>

#include "../../cpu/fold.h"
#include "../../cpu/workspace.h"
#include "metrics_cpu.h"

namespace mezzo::cpu_kernels {

/** Vectors per tile. Coordinate m of all vectors of a tile is contiguous. */
inline constexpr std::int64_t kTile = 64;

/** The rows of a matrix [count, length] in tiles of kTile vectors. */
template <class C> class Tiles {
 public:
  Tiles(const C* rows, std::int64_t count, std::int64_t length)
      : length_(length), data_((count + kTile - 1) / kTile * kTile * length) {
    for (std::int64_t j = 0; j < count; ++j)
      for (std::int64_t m = 0; m < length; ++m)
        data_.data()[(j / kTile * length + m) * kTile + j % kTile] = rows[j * length + m];
  }

  /** Computes distances[j - begin] between the vector x and the vectors begin..end-1 of one
   *  tile. Not inlined, so that it is compiled once for all callers. */
  template <class Metric>
  [[gnu::noinline]] void distances(const Metric& metric, const C* x, std::int64_t begin,
                                   std::int64_t end, C* distances) const {
    const std::int64_t width = end - begin;
    alignas(64) C total[kTile], part[kTile];
    std::fill(total, total + width, C(0));
    for (std::int64_t first = 0; first < length_; first += kMetricPart) {
      std::fill(part, part + width, C(0));
      for (std::int64_t m = first; m < std::min(first + kMetricPart, length_); ++m) {
        const C* other = at(begin, m);
        const C here = x[m];
        for (std::int64_t j = 0; j < width; ++j) part[j] = metric.step(part[j], here - other[j]);
      }
      for (std::int64_t j = 0; j < width; ++j) total[j] = metric.join(total[j], part[j]);
    }
    bool safe = true;
    for (std::int64_t j = 0; j < width; ++j) {
      safe &= metric.is_safe(total[j]);
      distances[j] = metric.finish(total[j]);
    }
    for (std::int64_t j = 0; !safe && j < width; ++j)
      if (!metric.is_safe(total[j]))
        distances[j] = safe_distance(metric, total[j], x, at(begin, 0) + j, kTile, length_);
  }

  /** Adds to gradient[m] the contributions of the distances between x and the vectors begin..end-1
   *  of one tile; g and y are the gradients and values of these distances. */
  template <class Metric>
  [[gnu::noinline]] void add_gradient(const Metric& metric, const C* x, std::int64_t begin,
                                      std::int64_t end, const C* g, const C* y, C* gradient) const {
    const std::int64_t width = end - begin;
    alignas(64) C coefficients[kTile], terms[kTile];
    bool safe = true;
    for (std::int64_t j = 0; j < width; ++j) {
      coefficients[j] = metric.coefficient(g[j], y[j]);
      safe &= math::is_finite(coefficients[j]);
    }
    for (std::int64_t m = 0; m < length_; ++m) {
      const C* other = at(begin, m);
      const C here = x[m];
      for (std::int64_t j = 0; j < width; ++j)
        terms[j] = coefficients[j] * metric.slope(here - other[j], y[j]);
      for (std::int64_t j = 0; !safe && j < width; ++j)
        terms[j] = derivative(metric, coefficients[j], g[j], here - other[j], y[j]);
      gradient[m] += fold_row(terms, width, C(0), kPlus, kPlus);
    }
  }

  /** Calls f(begin, end) for the parts of begin..end-1 in each tile. */
  template <class F> static void for_each_part(std::int64_t begin, std::int64_t end, F&& f) {
    while (begin < end) {
      const std::int64_t next = std::min(end, (begin / kTile + 1) * kTile);
      f(begin, next);
      begin = next;
    }
  }

 private:
  const C* at(std::int64_t j, std::int64_t m) const {
    return data_.data() + (j / kTile * length_ + m) * kTile + j % kTile;
  }

  std::int64_t length_;
  Workspace<C> data_;
};

}  // namespace mezzo::cpu_kernels
