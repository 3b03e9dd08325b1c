// NonfiniteLocation: the location of the first non-finite value in a list of tensors, as one word
// for atomic updates. Parsed by g++ and by nvcc.
// See also: ../amp/diagnose/nonfinite_gradient.h (describes it).
#pragma once

#include <cmath>
#include <cstdint>

#include "../tensor/core/macros.h"

namespace mezzo::optim {

/** The location of a non-finite value. The word of the first location, by (tensor number, element),
 *  is the largest. */
struct NonfiniteLocation {
  using Word = unsigned long long;     // the type of CUDA's 64-bit atomics
  static constexpr Word kNone = 0;     // no value; below all others
  static constexpr Word kUnknown = 1;  // of a value whose location is not known
  static constexpr int kElementBits = 40, kNumberBits = 22;
  // The largest number; larger ones are stored as this one.
  static constexpr std::uint32_t kMostNumber = (std::uint32_t{1} << kNumberBits) - 1;

  std::uint32_t number = 0;  // identifies the tensor
  std::int64_t element = 0;  // offset in the tensor's memory, in elements
  double value = NAN;        // NaN, infinity or -infinity

  /** Returns the word of a non-finite value. */
  template <class T> MZ_HD static Word word(std::size_t number, std::int64_t element, T value) {
    const Word kind = value != value ? 0 : value > 0 ? 1 : 2;
    const Word known = number < kMostNumber ? static_cast<Word>(number) : kMostNumber;
    return ~(known << (kElementBits + 2) | static_cast<Word>(element) << 2 | kind);
  }
  /** Decodes a word other than kNone. */
  static NonfiniteLocation of(Word complement) {
    const Word word = ~complement;
    return {static_cast<std::uint32_t>(word >> (kElementBits + 2)),
            static_cast<std::int64_t>(word >> 2 & ((Word{1} << kElementBits) - 1)),
            (word & 3) == 0   ? NAN
            : (word & 3) == 1 ? HUGE_VAL
                              : -HUGE_VAL};
  }
};

}  // namespace mezzo::optim
