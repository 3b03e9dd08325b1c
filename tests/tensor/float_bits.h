// Floats and their bits, for tests of functions and conversions of single numbers.
#pragma once

#include <cstdint>
#include <limits>

#include <mezzo.h>

namespace float_bits {

inline constexpr float kInf = std::numeric_limits<float>::infinity(),
                       kNan = std::numeric_limits<float>::quiet_NaN();

inline float float_of(std::uint32_t bits) { return mezzo::detail::bits_as<float>(bits); }
inline std::uint32_t bits_of(float x) { return mezzo::detail::bits_as<std::uint32_t>(x); }

}  // namespace float_bits
