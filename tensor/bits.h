// bits_as: reads the bits of one scalar as another type.
// Sees: the standard library only; parsed by nvcc too.
// Read next: half.h, math.h.
#pragma once

#include "macros.h"

namespace mezzo::detail {

/** std::bit_cast, but callable in device code without relaxed constexpr. */
template <class To, class From> MZ_HD constexpr To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, value);
}

}  // namespace mezzo::detail
