// bits_as: reads the bits of one scalar as another type. Parsed by g++ and by nvcc.
#pragma once

#include "macros.h"

namespace mezzo::detail {

/** Returns the bits of `value` as a To, like std::bit_cast, but callable in device code without
 *  relaxed constexpr. */
template <class To, class From> MZ_HD constexpr To bits_as(From value) {
  static_assert(sizeof(To) == sizeof(From));
  return __builtin_bit_cast(To, value);
}

}  // namespace mezzo::detail
