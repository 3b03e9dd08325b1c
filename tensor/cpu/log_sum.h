// LogSum: the state of log(sum(exp(x))) over a set of values without overflow: their maximum, and
// the sum of exponentials relative to it. Parsed by g++ and by nvcc.
#pragma once

#include <cmath>

#include "../math/math.h"
#include "order.h"

namespace mezzo::cpu_kernels {

/** The maximum of a set of values, and the sum of exp(x - shift()). */
template <class C> struct LogSum {
  C max, sum;

  MZ_HD static LogSum none() { return {lowest<C>(), C(0)}; }
  /** Returns the state of one value. The shift of an infinite value is 0, so its exponential is not
   *  shifted. */
  MZ_HD static LogSum of(C x) { return {x, std::isinf(x) ? math::exp(x) : C(1)}; }

  /** Returns the shift of the exponents: the maximum, or 0 if that is infinite. */
  MZ_HD C shift() const { return std::isinf(max) ? C(0) : max; }
  MZ_HD C value() const { return math::log(sum) + shift(); }

  MZ_HD static LogSum combined(LogSum a, LogSum b) {
    if (a.max == lowest<C>()) return b;
    if (b.max == lowest<C>()) return a;
    LogSum both{Greater{}(a.max, b.max), C(0)};
    both.sum =
        a.sum * math::exp(a.shift() - both.shift()) + b.sum * math::exp(b.shift() - both.shift());
    return both;
  }
};

}  // namespace mezzo::cpu_kernels
