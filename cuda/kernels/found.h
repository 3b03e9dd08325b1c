// Found: an element and its number, of which threads look for the best.
// Sees: ../kernel.h.
// Read next: arg_reduce.cu, pool.cu (the users).
#pragma once

#include "../kernel.h"

namespace mezzo::gpu {

template <class C> struct Found {
  C value;
  std::int64_t index;  // negative: nothing yet
};

/** The better of two by Better (see ../../tensor/cpu/order.h). Threads take turns in a line, so of equals the one that comes first has to win, nan
 *  among nan too. */
template <class Better, class C> __device__ Found<C> first_best(Found<C> a, Found<C> b) {
  if (b.index < 0) return a;
  if (a.index < 0 || Better{}(b.value, a.value)) return b;
  return Better{}(a.value, b.value) || a.index < b.index ? a : b;
}

}  // namespace mezzo::gpu
