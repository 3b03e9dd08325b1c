// CRC-32C (Castagnoli): the checksum of checkpoint files.
// Sees: the standard library only.
// Read next: crc32c.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "../macros.h"

namespace mezzo::io {

/** Checksum of the bytes; pass the result for one piece as `before` of the next to go on. Source: RFC 3720, B.4. */
MZ_API std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);

}  // namespace mezzo::io
