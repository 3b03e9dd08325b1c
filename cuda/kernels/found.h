// Found: an element and its index, for searches for the best element.
#pragma once

#include "kernel.h"

namespace mezzo::gpu {

/** An element and its index. */
template <class C> struct Found {
  C value;
  std::int64_t index;  // negative: no element
};

/** Returns the better of two by Better (see tensor/cpu/order.h). Of equal elements, NaN included,
 *  the one with the lower index wins, because threads visit a line in an interleaved order. */
template <class Better, class C> __device__ Found<C> first_best(Found<C> a, Found<C> b) {
  if (b.index < 0) return a;
  if (a.index < 0 || Better{}(b.value, a.value)) return b;
  return Better{}(a.value, b.value) || a.index < b.index ? a : b;
}

}  // namespace mezzo::gpu
