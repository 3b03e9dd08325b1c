// Arithmetic on sizes that cannot overflow: computed in 128 bits, and checked where the result
// becomes a size.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "macros.h"

namespace mezzo {

/** A 128-bit integer; holds every sum of products of two 64-bit numbers. */
__extension__ using WideSize = __int128;

/** The maximum number of elements of a tensor, dimensions of size 0 not counted. With this limit no
 *  product of a tensor's sizes overflows. */
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 59;

/** Returns `size` as a size or a number of elements. Errors: SizeError naming `op` unless it is in
 *  0..kMaxElements. */
MZ_API std::int64_t checked_size(WideSize size, std::string_view op);

/** Returns the product of sizes of different origin. Errors: SizeError naming `op` if it is above
 *  kMaxElements. */
MZ_API std::int64_t checked_product(std::initializer_list<std::int64_t> sizes, std::string_view op);

/** Returns ceil(numerator / denominator), for numerator >= 0 and denominator > 0. */
constexpr std::int64_t ceil_div(std::int64_t numerator, std::int64_t denominator) {
  return numerator == 0 ? 0 : 1 + (numerator - 1) / denominator;
}

/** Returns true if `value` is an integer that fits an i64, so that integer arithmetic can use it as
 *  a factor. */
inline bool fits_i64(double value) {
  return value == std::trunc(value) && std::abs(value) < 0x1p63;
}

/** Returns the nearest 64-bit number; used in error texts. */
MZ_API std::int64_t saturated_size(WideSize size);

/** A window that moves along one dimension, as in convolution and pooling. */
struct WindowMove {
  std::int64_t kernel = 1, stride = 1, dilation = 1;  // at least 1 each

  /** Returns the extent of the window from its first to its last element. */
  WideSize reach() const { return WideSize{dilation} * (kernel - 1) + 1; }
  /** Returns the number of window positions among `padded` elements; 0 if the window does not
   *  fit. */
  WideSize places(WideSize padded) const {
    const WideSize room = padded - reach();
    if (room < 0) return 0;
    const bool is_short = room <= kMaxElements;  // a 64-bit division is faster
    return is_short ? static_cast<std::int64_t>(room) / stride + 1 : room / stride + 1;
  }
};

}  // namespace mezzo
