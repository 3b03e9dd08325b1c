// Copies of elements as words of up to 16 bytes, regardless of dtype.
#pragma once

#include "element.h"

namespace mezzo::gpu {

namespace detail {
template <class Word>
__device__ inline void copy_as(const void* from, std::int64_t at, void* to, std::int64_t place) {
  static_cast<Word*>(to)[place] = static_cast<const Word*>(from)[at];
}
}  // namespace detail

/** Sets word `place` of `to` to word `at` of `from`. Words are aligned and have 1, 2, 4, 8 or 16
 *  bytes. */
__device__ inline void copy_word(const void* from, std::int64_t at, void* to, std::int64_t place,
                                 int bytes) {
  switch (bytes) {
    case 1: return detail::copy_as<std::uint8_t>(from, at, to, place);
    case 2: return detail::copy_as<std::uint16_t>(from, at, to, place);
    case 4: return detail::copy_as<std::uint32_t>(from, at, to, place);
    case 8: return detail::copy_as<std::uint64_t>(from, at, to, place);
    default: return detail::copy_as<Pack<std::uint64_t, 2>>(from, at, to, place);
  }
}

}  // namespace mezzo::gpu
