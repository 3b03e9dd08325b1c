// LogSum: what is known of log(sum(exp(x))) after some values, without overflow: their maximum, and the sum of exponentials relative to it.
// Sees: order.h, ../math.h; parsed by nvcc too.
// Read next: statistics.cpp, ../../cuda/kernels/statistics.cu.
#pragma once

#include <cmath>

#include "../math.h"
#include "order.h"

namespace mezzo::cpu_kernels {

template <class C> struct LogSum {
  C max, sum;

  MZ_HD static LogSum none() { return {lowest<C>(), C(0)}; }
  /** Of one value. Of an infinite one nothing is taken away, so there the exponential stays as it is. */
  MZ_HD static LogSum of(C x) { return {x, std::isinf(x) ? math::exp(x) : C(1)}; }

  /** What exponents are taken relative to: the maximum, unless that is infinite. */
  MZ_HD C shift() const { return std::isinf(max) ? C(0) : max; }
  MZ_HD C value() const { return math::log(sum) + shift(); }

  MZ_HD static LogSum combined(LogSum a, LogSum b) {
    if (a.max == lowest<C>()) return b;
    if (b.max == lowest<C>()) return a;
    LogSum both{Greater{}(a.max, b.max), C(0)};
    both.sum = a.sum * math::exp(a.shift() - both.shift()) + b.sum * math::exp(b.shift() - both.shift());
    return both;
  }
};

}  // namespace mezzo::cpu_kernels
