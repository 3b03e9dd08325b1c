// NonfiniteWord: the location of the first non-finite value in a list of tensors, as one word for
// atomic updates. Parsed by g++ and by nvcc.
// See also: ../../amp/diagnose/nonfinite_gradient.h (describes it).
#pragma once

#include <cmath>
#include <cstdint>

#include "../../tensor/core/macros.h"

namespace mezzo::optim {

/** The location of a non-finite value: the number of a tensor, the element, and which of the three
 *  values it is. The word of the first location, by (number, element), is the largest. */
using NonfiniteWord = unsigned long long;  // the type of CUDA's 64-bit atomics

inline constexpr NonfiniteWord kAllFinite = 0;        // no value; below all others
inline constexpr NonfiniteWord kUnknownLocation = 1;  // of a value whose location is not known
inline constexpr int kElementBits = 40, kNumberBits = 22;
// The largest number of a tensor; larger ones are stored as this one.
inline constexpr std::uint32_t kMostNumber = (std::uint32_t{1} << kNumberBits) - 1;

/** Returns the word of a non-finite value. `element` is its offset in the tensor's memory. */
template <class T>
MZ_HD NonfiniteWord nonfinite_word(std::size_t number, std::int64_t element, T value) {
  const NonfiniteWord kind = value != value ? 0 : value > 0 ? 1 : 2;
  const NonfiniteWord known = number < kMostNumber ? number : kMostNumber;
  return ~(known << (kElementBits + 2) | static_cast<NonfiniteWord>(element) << 2 | kind);
}
/** Returns the number of the tensor. */
constexpr std::uint32_t number_of(NonfiniteWord word) {
  return static_cast<std::uint32_t>(~word >> (kElementBits + 2));
}
/** Returns the element's offset in the tensor's memory. */
constexpr std::int64_t element_of(NonfiniteWord word) {
  return static_cast<std::int64_t>(~word >> 2 & ((NonfiniteWord{1} << kElementBits) - 1));
}
/** Returns the value: NaN, infinity or -infinity. */
constexpr double value_of(NonfiniteWord word) {
  const NonfiniteWord kind = ~word & 3;
  return kind == 0 ? NAN : kind == 1 ? HUGE_VAL : -HUGE_VAL;
}

}  // namespace mezzo::optim
