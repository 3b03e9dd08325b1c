// The p-norms as metrics of differences. Parsed by g++ and by nvcc.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "../../cpu/order.h"
#include "../../math/math.h"
#include "../../math/safe_sum.h"

namespace mezzo::cpu_kernels {

// A metric: `step` adds the difference d in one coordinate; `finish` returns the distance. The
// derivative of the distance y by d is coefficient(g, y) * slope(d, y). If y is 0, either the
// coefficient or the slope is 0. is_safe returns whether the distance follows from the sum of all
// steps; safe_distance computes others.

template <class C> MZ_HD C absolute(C d) { return d < C(0) ? -d : d; }
template <class C> MZ_HD C sign_of(C d) { return d > C(0) ? C(1) : d < C(0) ? C(-1) : C(0); }

/** p = 0: the number of coordinates that differ. */
template <class C> struct Differing {
  MZ_HD C step(C a, C d) const { return d == C(0) ? a : a + (d == d ? C(1) : d); }  // nan stays
  MZ_HD C join(C a, C b) const { return a + b; }
  MZ_HD C finish(C a) const { return a; }
  MZ_HD bool is_safe(C) const { return true; }
  MZ_HD C coefficient(C, C) const { return C(0); }
  MZ_HD C slope(C, C) const { return C(0); }
};

/** p = 1. */
template <class C> struct SumOfSizes {
  MZ_HD C step(C a, C d) const { return a + absolute(d); }
  MZ_HD C join(C a, C b) const { return a + b; }
  MZ_HD C finish(C a) const { return a; }
  MZ_HD bool is_safe(C) const { return true; }
  MZ_HD C coefficient(C g, C) const { return g; }
  MZ_HD C slope(C d, C) const { return sign_of(d); }
};

/** p = 2. */
template <class C> struct Euclidean {
  MZ_HD C step(C a, C d) const { return a + d * d; }
  MZ_HD C join(C a, C b) const { return a + b; }
  MZ_HD C finish(C a) const { return std::sqrt(a); }
  MZ_HD bool is_safe(C a) const { return math::is_safe_sum(a); }
  MZ_HD C coefficient(C g, C y) const { return y == C(0) ? C(0) : g / y; }
  MZ_HD C slope(C d, C) const { return d; }
};

/** p = inf. */
template <class C> struct Greatest {
  MZ_HD C step(C a, C d) const { return Greater{}(a, absolute(d)); }
  MZ_HD C join(C a, C b) const { return Greater{}(a, b); }
  MZ_HD C finish(C a) const { return a; }
  MZ_HD bool is_safe(C) const { return true; }
  MZ_HD C coefficient(C g, C) const { return g; }
  MZ_HD C slope(C d, C y) const { return absolute(d) == y ? sign_of(d) : C(0); }
};

/** Any other p > 0. */
template <class C> struct Power {
  C p, root;
  explicit Power(double exponent)
      : p(static_cast<C>(exponent)), root(static_cast<C>(1 / exponent)) {}
  MZ_HD C step(C a, C d) const { return a + math::pow(absolute(d), p); }
  MZ_HD C join(C a, C b) const { return a + b; }
  MZ_HD C finish(C a) const { return math::pow(a, root); }
  MZ_HD bool is_safe(C a) const { return math::is_safe_sum(a); }
  MZ_HD C coefficient(C g, C y) const { return y == C(0) ? C(0) : g; }
  MZ_HD C slope(C d, C y) const {
    const C ratio = absolute(d) / (y == C(0) ? C(1) : y);
    return d == C(0) ? C(0) : sign_of(d) * math::pow(ratio, p - C(1));
  }
};

/** Returns the gradient of the difference d at distance y, from coefficient(g, y). */
template <class C, class Metric>
MZ_HD C derivative(const Metric& metric, C coefficient, C g, C d, C y) {
  if constexpr (std::is_same_v<Metric, Euclidean<C>>)
    if (!math::is_finite(coefficient)) return g * (d / y);
  return coefficient * metric.slope(d, y);
}

/** Returns the distance of the vectors a and b, whose elements are 1 and `stride` apart. `sum` is
 *  that of all steps, which may have left the range of C. This is the slow way. */
template <class C, class Metric>
MZ_HD C safe_distance(const Metric& metric, C sum, const C* a, const C* b, std::int64_t stride,
                      std::int64_t length) {
  C greatest = 0;
  for (std::int64_t m = 0; m < length; ++m)
    greatest = Greater{}(greatest, absolute(a[m] - b[m * stride]));
  const C scale = math::scale_of(greatest);
  if (scale == C(1)) return metric.finish(sum);
  sum = 0;
  for (std::int64_t m = 0; m < length; ++m) sum = metric.step(sum, (a[m] - b[m * stride]) * scale);
  return metric.finish(sum) / scale;
}

/** Calls f with the metric of p >= 0. */
template <class C, class F> void visit_metric(double p, F&& f) {
  if (p == 0) return f(Differing<C>{});
  if (p == 1) return f(SumOfSizes<C>{});
  if (p == 2) return f(Euclidean<C>{});
  if (std::isinf(p)) return f(Greatest<C>{});
  f(Power<C>(p));
}

/** Coordinates are summed in parts of this size, then the parts are summed: errors grow with the
 *  number of parts rather than the number of coordinates. */
inline constexpr std::int64_t kMetricPart = 64;

/** Returns the index of the pair i < j of n rows. */
MZ_HD inline std::int64_t pair_place(std::int64_t i, std::int64_t j, std::int64_t n) {
  return i * (2 * n - i - 1) / 2 + (j - i - 1);
}

}  // namespace mezzo::cpu_kernels
