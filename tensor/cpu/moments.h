// Moments: count, mean and sum of squared deviations of a set of values, in one pass over memory.
// The states and their combination are parsed by g++ and by nvcc.
#pragma once

#include "fold.h"
#include "order.h"

namespace mezzo::cpu_kernels {

/** A reduction (see reduce_driver.h). Makes two passes over the cached values of a chunk, and
 *  combines chunks by the formula of Chan, Golub and LeVeque. */
template <class C> struct Moments {
  struct State {
    C count, mean, squares;  // squares: sum of (x - mean)^2
  };
  using Value = C;

  MZ_HD State identity() const { return {C(0), C(0), C(0)}; }

  State row(const C* x, std::int64_t n, std::int64_t) const {
    const C mean = fold_row(x, n, C(0), kPlus, kPlus) / static_cast<C>(n);
    const auto square = [mean](auto a, auto b) { return a + (b - mean) * (b - mean); };
    return {static_cast<C>(n), mean, fold_row(x, n, C(0), square, kPlus)};
  }

  template <class V>
  void columns(const V* x, std::int64_t rows, std::int64_t stride, std::int64_t width, std::int64_t,
               State* out) const {
    const auto add = [](C a, C b, std::int64_t) { return a + b; };
    alignas(64) C means[kMaxColumns], lanes[kMaxColumns], squares[kMaxColumns];
    fold_columns(x, rows, stride, width, C(0), add, kPlus, means);
    for (std::int64_t j = 0; j < width; ++j) means[j] /= static_cast<C>(rows);
    repeat_lanes(means, width, stride, lanes);
    const auto square = [&lanes](C a, C b, std::int64_t j) {
      return a + (b - lanes[j]) * (b - lanes[j]);
    };
    fold_columns(x, rows, stride, width, C(0), square, kPlus, squares);
    for (std::int64_t j = 0; j < width; ++j) out[j] = {static_cast<C>(rows), means[j], squares[j]};
  }

  MZ_HD State combine(State a, State b) const {
    if (a.count == C(0)) return b;
    if (b.count == C(0)) return a;
    const C count = a.count + b.count;
    const C step = b.mean - a.mean;
    const C share = b.count / count;
    return {count, a.mean + step * share, a.squares + b.squares + step * step * (a.count * share)};
  }
};

}  // namespace mezzo::cpu_kernels
