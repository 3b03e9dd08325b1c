// channel_moments(): mean and squared deviations of each channel over the other dimensions.
#pragma once

#include <cstdint>

#include "../../cpu/moments.h"
#include "../../cpu/reduce_driver.h"

namespace mezzo::cpu_kernels {

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
