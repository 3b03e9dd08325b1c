// BadValue: which value of a list of tensors was the first that is not finite, as one word that the threads of a device can note.
// Sees: tensor/macros.h. Parsed by g++ and by nvcc.
// Read next: multi_tensor.h (who notes one), scale_call.h (who keeps it), ../amp/nonfinite_gradient.h (who tells it).
#pragma once

#include <cstdint>

#include "../tensor/macros.h"

namespace mezzo::optim {

/** The first is the one with the least word: that of the tensor with the least number, and in it of the first element in memory. */
struct BadValue {
  using Word = unsigned long long;  // as CUDA's atomics want it
  static constexpr Word kNone = ~Word{0};
  static constexpr int kElementBits = 40, kNumberBits = 22;
  static constexpr std::uint32_t kMostNumber =
      (std::uint32_t{1} << kNumberBits) - 1;  // stands for all beyond it too
  enum class Kind : std::uint8_t { nan, infinity, minus_infinity };

  std::uint32_t number = 0;  // what the tensor is known by
  std::int64_t element = 0;
  Kind kind = Kind::nan;

  template <class T> MZ_HD static Word word(std::size_t number, std::int64_t element, T value) {
    const Kind kind = value != value ? Kind::nan : value > 0 ? Kind::infinity : Kind::minus_infinity;
    const Word known = number < kMostNumber ? static_cast<Word>(number) : kMostNumber;
    return known << (kElementBits + 2) | static_cast<Word>(element) << 2 | static_cast<Word>(kind);
  }
  static BadValue of(Word word) {
    return {static_cast<std::uint32_t>(word >> (kElementBits + 2)),
            static_cast<std::int64_t>(word >> 2 & ((Word{1} << kElementBits) - 1)),
            static_cast<Kind>(word & 3)};
  }
};

}  // namespace mezzo::optim
