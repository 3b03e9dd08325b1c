// Partials of norms of lists: a sum of powers, or, where powers leave the range of f64 although the
// norm does not, the negative norm of the same elements. Parsed by g++ and by nvcc.
#pragma once

#include <type_traits>

#include "../../tensor/core/macros.h"

namespace mezzo::optim {

/** Returns true if powers of order p of elements with compute type V may leave the range of f64. Of
 *  f32 numbers, those of orders up to 6 do not. */
template <class V> MZ_HD bool may_leave_range(double p) {
  return p <= 1e300 && !(std::is_same_v<V, float> && p <= 6);
}
/** Returns true if a sum of |x|^p over such elements may have lost terms by overflow or
 *  underflow. */
template <class V> MZ_HD bool is_out_of_range(double sum, double p) {
  return may_leave_range<V>(p) && !(sum >= 1e-280 && sum <= 1e290);
}
/** Returns true if elements can be divided by their largest magnitude: neither zero nor
 *  non-finite. */
MZ_HD inline bool can_divide_by(double largest) { return largest > 0 && largest - largest == 0; }

/** Returns the partial that is a norm, not a sum of powers. */
MZ_HD inline double norm_partial(double norm) { return -norm; }
MZ_HD inline bool is_norm(double partial) { return partial < 0; }
MZ_HD inline double norm_of(double partial) { return -partial; }

}  // namespace mezzo::optim
