// Arithmetic on sizes that cannot overflow: computed in 128 bits, checked where the result becomes
// a size.
// Sees: macros.h.
// Read next: shape.h (checked_numel, for the sizes of one tensor), ops/conv.cpp (a user).
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "macros.h"

namespace mezzo {

/** Holds every sum of products of two 64-bit numbers. */
__extension__ using WideSize = __int128;

/** The most elements a tensor has, those in dimensions of size 0 not counted; so no product of
 *  its sizes overflows. */
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 59;

/** `size` as a size or a number of elements. Errors: SizeError naming `op` unless it is in
 *  0..kMaxElements. */
MZ_API std::int64_t checked_size(WideSize size, std::string_view op);

/** Product of sizes of different origin. Errors: SizeError naming `op` where it is above
 *  kMaxElements. */
MZ_API std::int64_t checked_product(std::initializer_list<std::int64_t> sizes, std::string_view op);

/** The number of steps that ceil(numerator / denominator) takes, for numerator >= 0 and
 *  denominator > 0. */
constexpr std::int64_t ceil_div(std::int64_t numerator, std::int64_t denominator) {
  return numerator == 0 ? 0 : 1 + (numerator - 1) / denominator;
}

/** Whether the number is whole and an i64 holds it: what integer arithmetic takes as a factor. */
inline bool fits_i64(double value) { return value == std::trunc(value) && std::abs(value) < 0x1p63; }

/** The nearest 64-bit number: for texts of errors. */
MZ_API std::int64_t saturated_size(WideSize size);

/** A window moved along one dimension. */
struct WindowMove {
  std::int64_t kernel = 1, stride = 1, dilation = 1;  // at least 1 each

  /** From its first to its last element. */
  WideSize reach() const { return WideSize{dilation} * (kernel - 1) + 1; }
  /** Number of its places among `padded` elements; 0 where it does not fit even once. */
  WideSize places(WideSize padded) const {
    const WideSize room = padded - reach();
    if (room < 0) return 0;
    const bool is_short = room <= kMaxElements;  // then a division of 64 bits does, which is faster
    return is_short ? static_cast<std::int64_t>(room) / stride + 1 : room / stride + 1;
  }
};

}  // namespace mezzo
