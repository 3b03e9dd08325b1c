// fold_tensor: reductions whose state is one number, given by a step per element, a combination of
// partial results and a final function.
#pragma once

#include "../core/dispatch.h"
#include "extreme_row.h"
#include "reduce_driver.h"

namespace mezzo::cpu_kernels {

/** A reduction by step(state, value) from `start` on. combine joins two states; `start` is its
 *  neutral element. */
template <class C, class Step, class Combine> struct Fold {
  using Value = C;
  using State = C;
  C start;
  Step step;
  Combine joined;

  C identity() const { return start; }
  C row(const C* x, std::int64_t n, std::int64_t) const {
    if constexpr (std::is_same_v<Step, Greater> || std::is_same_v<Step, Less>)
      return extreme_of_row(x, n, start, step);
    else
      return fold_row(x, n, start, step, joined);
  }
  template <class V>
  void columns(const V* x, std::int64_t rows, std::int64_t stride, std::int64_t width, std::int64_t,
               C* out) const {
    const auto at_lane = [this](C state, C value, std::int64_t) { return step(state, value); };
    fold_columns(x, rows, stride, width, start, at_lane, joined, out);
  }
  C combine(C a, C b) const { return joined(a, b); }
};

/** Computes y = finish(fold of x over dims), rounded once to y's dtype. */
template <class C, class Step, class Combine, class Finish>
void fold_tensor(const Tensor& x, Tensor& y, std::uint32_t dims, C start, Step step,
                 Combine combine, Finish finish) {
  const BlockWriter<C> writer(y);
  const auto emit = [&](std::int64_t at, const C* states, std::int64_t n) {
    C buffer[kMaxEmitted];
    C* results = writer.target(at, buffer);
    for (std::int64_t i = 0; i < n; ++i) results[i] = finish(states[i]);
    writer.write(at, n, results);
  };
  reduce_tensor(x, dims, Fold<C, Step, Combine>{start, step, combine}, emit);
}

}  // namespace mezzo::cpu_kernels
