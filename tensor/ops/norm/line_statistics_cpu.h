// line_statistics(): mean, variance and rstd of lines of a tensor, for batch, group and instance
// norm.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "../../cpu/line_scales.h"
#include "../../cpu/moments.h"
#include "../../cpu/reduce_driver.h"
#include "../../math/safe_sum.h"

namespace mezzo::cpu_kernels {

/** Computes the mean, the biased variance and 1 / sqrt(variance + eps) of the lines of x over
 *  `dims`. Lines whose sums overflow are scaled and computed again: the variance may be infinite
 *  where rstd is not 0. */
template <class C>
void line_statistics(const Tensor& x, std::uint32_t dims, C eps, C* mean, C* var, C* rstd,
                     std::int64_t lines) {
  using State = typename Moments<C>::State;
  const auto write = [&](std::int64_t at, const State* states, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const bool is_empty = states[i].count == 0;
      mean[at + i] = is_empty ? std::numeric_limits<C>::quiet_NaN() : states[i].mean;
      var[at + i] = states[i].squares / states[i].count;
    }
  };
  reduce_tensor(x, dims, Moments<C>{}, write, 0.3);
  std::vector<char> unsafe(static_cast<std::size_t>(lines));
  bool all_safe = true;
  for (std::int64_t i = 0; i < lines; ++i) {
    rstd[i] = C(1) / std::sqrt(var[i] + eps);
    const bool safe = math::is_finite(mean[i]) && math::is_finite(var[i]);
    unsafe[static_cast<std::size_t>(i)] = safe ? 0 : 1;
    all_safe &= safe;
  }
  if (all_safe || x.numel() == 0) return;
  const auto scaled = scaled_lines(x, dims, unsafe);
  if (!scaled) return;
  const C* scales = scaled->scale.template data<C>();
  const auto write_scaled = [&](std::int64_t at, const State* states, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) {
      const C scale = scales[at + i];
      if (scale == C(1)) continue;
      const C scaled_var = states[i].squares / states[i].count;
      mean[at + i] = states[i].mean / scale;
      var[at + i] = scaled_var / scale / scale;
      rstd[at + i] = scale / std::sqrt(scaled_var + eps * scale * scale);
    }
  };
  reduce_tensor(scaled->x, dims, Moments<C>{}, write_scaled, 0.3);
}

/** Returns the dimensions of x [n, c, ...] but for c. */
inline std::uint32_t all_but_channels(const Tensor& x) { return ((1u << x.dim()) - 1) & ~2u; }

/** Calls finish(channel, moments) for each channel of x [n, c, ...], perhaps on several threads.
 * The moments are computed in C, blockwise (moments.h). */
template <class C, class F> void channel_moments(const Tensor& x, const F& finish) {
  using State = typename Moments<C>::State;
  reduce_tensor(
      x, all_but_channels(x), Moments<C>{},
      [&](std::int64_t at, const State* states, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i) finish(at + i, states[i]);
      },
      0.3);
}

}  // namespace mezzo::cpu_kernels
