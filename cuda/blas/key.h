// Parts of the keys of cached plans for products and convolutions.
#pragma once

#include <cstdint>

namespace mezzo::gpu {

/** Returns the largest power of two up to 256 that divides an address. Algorithms differ in the
 *  alignment they require. */
inline std::int64_t alignment(const void* address) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address) | 256;
  return static_cast<std::int64_t>(bits & (~bits + 1));
}

/** Hash of a std::array or std::vector of integers. */
struct KeyHash {
  template <class Key> std::size_t operator()(const Key& key) const {
    std::size_t hash = 0;
    for (const std::int64_t part : key)
      hash = hash * 0x9E3779B97F4A7C15u + static_cast<std::size_t>(part);
    return hash;
  }
};

}  // namespace mezzo::gpu
