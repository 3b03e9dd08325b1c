// Maps elements to unsigned integers of the same order: nan is greatest, -0 equals +0. Parsed by
// g++ and by nvcc.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "../core/half.h"

namespace mezzo::cpu_kernels {

/** Returns the order-preserving key of floating bits, given the bits of infinity. */
template <class Bits> MZ_HD constexpr Bits floating_key(Bits bits, Bits infinity) {
  constexpr Bits kSign = static_cast<Bits>(Bits{1} << (sizeof(Bits) * 8 - 1));
  const Bits magnitude = static_cast<Bits>(bits & ~kSign);
  if (magnitude > infinity) return std::numeric_limits<Bits>::max();
  if (magnitude == 0) return kSign;
  // All bits of a negative number are inverted, else the sign. Without a branch: signs are random.
  const Bits negative = static_cast<Bits>(0 - (bits >> (sizeof(Bits) * 8 - 1)));
  return static_cast<Bits>(bits ^ (negative | kSign));
}

MZ_HD inline std::uint32_t sort_key(Half x) { return floating_key<std::uint16_t>(x.bits, 0x7C00); }
MZ_HD inline std::uint32_t sort_key(BFloat16 x) {
  return floating_key<std::uint16_t>(x.bits, 0x7F80);
}
MZ_HD inline std::uint32_t sort_key(float x) {
  return floating_key<std::uint32_t>(detail::bits_as<std::uint32_t>(x), 0x7F800000);
}
MZ_HD inline std::uint64_t sort_key(double x) {
  return floating_key<std::uint64_t>(detail::bits_as<std::uint64_t>(x), 0x7FF0000000000000);
}
MZ_HD inline std::uint32_t sort_key(bool x) { return x; }
MZ_HD inline std::uint32_t sort_key(std::uint8_t x) { return x; }
MZ_HD inline std::uint32_t sort_key(std::int32_t x) {
  return static_cast<std::uint32_t>(x) ^ 0x80000000u;
}
MZ_HD inline std::uint64_t sort_key(std::int64_t x) {
  return static_cast<std::uint64_t>(x) ^ 0x8000000000000000u;
}

/** A key and the index of its element, ordered by key, then index. */
struct WideEntry {
  std::uint64_t key;
  std::uint64_t place;
  static constexpr int kKeyBytes = 8;
  MZ_HD std::uint64_t sorted_by() const { return key; }
  MZ_HD std::int64_t index() const { return static_cast<std::int64_t>(place); }
  MZ_HD friend bool operator<(const WideEntry& a, const WideEntry& b) {
    return a.key != b.key ? a.key < b.key : a.place < b.place;
  }
};

/** A key and an index in one word, for keys of 32 bits in lines of fewer than 2^32 elements. */
struct NarrowEntry {
  std::uint64_t key_and_index;
  static constexpr int kKeyBytes = 4;
  MZ_HD std::uint64_t sorted_by() const { return key_and_index >> 32; }
  MZ_HD std::int64_t index() const {
    return static_cast<std::int64_t>(key_and_index & 0xFFFFFFFFu);
  }
  MZ_HD friend bool operator<(NarrowEntry a, NarrowEntry b) {
    return a.key_and_index < b.key_and_index;
  }
};

template <class Entry, class T>
MZ_HD Entry sort_entry(T value, std::int64_t index, bool descending) {
  auto key = sort_key(value);
  if (descending) key = static_cast<decltype(key)>(~key);
  if constexpr (std::is_same_v<Entry, NarrowEntry>)
    return {std::uint64_t{key} << 32 | static_cast<std::uint64_t>(index)};
  else
    return {key, static_cast<std::uint64_t>(index)};
}

}  // namespace mezzo::cpu_kernels
