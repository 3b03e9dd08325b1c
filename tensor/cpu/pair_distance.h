// The p-norms as metrics of differences, and the rows of a matrix laid out so that one vector meets many of them at a time.
// Sees: ../math.h, fold.h, order.h, workspace.h.
// Read next: pair_distance.cpp.
#pragma once

#include <algorithm>
#include <cmath>

#include "../math.h"
#include "fold.h"
#include "order.h"
#include "workspace.h"

namespace mezzo::cpu_kernels {

// A metric: `step` takes the difference d in one coordinate, `finish` makes the distance; `slope` is the derivative of the distance y by d
// as coefficient(g, y) * slope(d, y), and where y is 0 the coefficient is 0, unless the slope is.

template <class C> C absolute(C d) { return d < C(0) ? -d : d; }
template <class C> C sign_of(C d) { return d > C(0) ? C(1) : d < C(0) ? C(-1) : C(0); }

/** p = 0: how many coordinates differ. */
template <class C> struct Differing {
  C step(C a, C d) const { return d != C(0) ? a + C(1) : a; }
  C join(C a, C b) const { return a + b; }
  C finish(C a) const { return a; }
  C coefficient(C, C) const { return C(0); }
  C slope(C, C) const { return C(0); }
};

template <class C> struct SumOfSizes {
  C step(C a, C d) const { return a + absolute(d); }
  C join(C a, C b) const { return a + b; }
  C finish(C a) const { return a; }
  C coefficient(C g, C) const { return g; }
  C slope(C d, C) const { return sign_of(d); }
};

template <class C> struct Euclidean {
  C step(C a, C d) const { return a + d * d; }
  C join(C a, C b) const { return a + b; }
  C finish(C a) const { return std::sqrt(a); }
  C coefficient(C g, C y) const { return y == C(0) ? C(0) : g / y; }
  C slope(C d, C) const { return d; }
};

template <class C> struct Greatest {
  C step(C a, C d) const { return kGreater(a, absolute(d)); }
  C join(C a, C b) const { return kGreater(a, b); }
  C finish(C a) const { return a; }
  C coefficient(C g, C) const { return g; }
  C slope(C d, C y) const { return absolute(d) == y ? sign_of(d) : C(0); }
};

template <class C> struct Power {
  C p, root;
  explicit Power(double exponent) : p(static_cast<C>(exponent)), root(static_cast<C>(1 / exponent)) {}
  C step(C a, C d) const { return a + math::pow(absolute(d), p); }
  C join(C a, C b) const { return a + b; }
  C finish(C a) const { return math::pow(a, root); }
  C coefficient(C g, C y) const { return y == C(0) ? C(0) : g; }
  C slope(C d, C y) const {
    const C ratio = absolute(d) / (y == C(0) ? C(1) : y);
    return d == C(0) ? C(0) : sign_of(d) * math::pow(ratio, p - C(1));
  }
};

/** Calls f with the metric of p >= 0. */
template <class C, class F> void visit_metric(double p, F&& f) {
  if (p == 0) return f(Differing<C>{});
  if (p == 1) return f(SumOfSizes<C>{});
  if (p == 2) return f(Euclidean<C>{});
  if (std::isinf(p)) return f(Greatest<C>{});
  f(Power<C>(p));
}

/** Vectors side by side: coordinate m of the vectors of a tile lie next to each other. */
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

  /** distances[j - begin] between the vector x and the vectors begin..end-1 of one tile. */
  template <class Metric>
  void distances(const Metric& metric, const C* x, std::int64_t begin, std::int64_t end, C* distances) const {
    const std::int64_t width = end - begin;
    alignas(64) C total[kTile], part[kTile];
    std::fill(total, total + width, C(0));
    // Parts of 64 coordinates: errors grow with their number rather than with that of coordinates.
    for (std::int64_t first = 0; first < length_; first += 64) {
      std::fill(part, part + width, C(0));
      for (std::int64_t m = first; m < std::min(first + 64, length_); ++m) {
        const C* other = at(begin, m);
        const C here = x[m];
        for (std::int64_t j = 0; j < width; ++j) part[j] = metric.step(part[j], here - other[j]);
      }
      for (std::int64_t j = 0; j < width; ++j) total[j] = metric.join(total[j], part[j]);
    }
    for (std::int64_t j = 0; j < width; ++j) distances[j] = metric.finish(total[j]);
  }

  /** Adds to gradient[m] what the distances between x and the vectors begin..end-1 of one tile contribute; g and y are theirs. */
  template <class Metric>
  void add_gradient(const Metric& metric, const C* x, std::int64_t begin, std::int64_t end, const C* g,
                    const C* y, C* gradient) const {
    const std::int64_t width = end - begin;
    alignas(64) C coefficients[kTile], terms[kTile];
    for (std::int64_t j = 0; j < width; ++j) coefficients[j] = metric.coefficient(g[j], y[j]);
    for (std::int64_t m = 0; m < length_; ++m) {
      const C* other = at(begin, m);
      const C here = x[m];
      for (std::int64_t j = 0; j < width; ++j)
        terms[j] = coefficients[j] * metric.slope(here - other[j], y[j]);
      gradient[m] += fold_row(terms, width, C(0), kPlus, kPlus);
    }
  }

  /** Calls f(begin, end) for the parts of begin..end-1 that lie in one tile each. */
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
