// NonfiniteLocation: the location of the first non-finite value in a list of tensors, as one word
// for atomic updates. Parsed by g++ and by nvcc.
// See also: ../amp/diagnose/nonfinite_gradient.h (describes it).
#pragma once

#include <cstdint>

#include "../tensor/core/macros.h"

namespace mezzo::optim {

/** The location of a non-finite value. Words are ordered by (tensor number, element); the smallest
 *  wins. */
struct NonfiniteLocation {
  using Word = unsigned long long;  // the type of CUDA's 64-bit atomics
  static constexpr Word kNone = ~Word{0};
  static constexpr int kElementBits = 40, kNumberBits = 22;
  // The largest number; larger ones are stored as this one.
  static constexpr std::uint32_t kMostNumber = (std::uint32_t{1} << kNumberBits) - 1;
  enum class Kind : std::uint8_t { nan, infinity, minus_infinity };

  std::uint32_t number = 0;  // identifies the tensor
  std::int64_t element = 0;  // offset in the tensor's memory, in elements
  Kind kind = Kind::nan;

  /** Returns the word of a non-finite value. */
  template <class T> MZ_HD static Word word(std::size_t number, std::int64_t element, T value) {
    const Kind kind = value != value ? Kind::nan
                      : value > 0    ? Kind::infinity
                                     : Kind::minus_infinity;
    const Word known = number < kMostNumber ? static_cast<Word>(number) : kMostNumber;
    return known << (kElementBits + 2) | static_cast<Word>(element) << 2 | static_cast<Word>(kind);
  }
  /** Decodes a word other than kNone. */
  static NonfiniteLocation of(Word word) {
    return {static_cast<std::uint32_t>(word >> (kElementBits + 2)),
            static_cast<std::int64_t>(word >> 2 & ((Word{1} << kElementBits) - 1)),
            static_cast<Kind>(word & 3)};
  }
};

}  // namespace mezzo::optim
