// CRC-32C (Castagnoli): the checksum of checkpoint files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "../core/macros.h"

namespace mezzo::io {

/** Returns the checksum of the bytes. For data in several parts, pass the result for one part as
 *  `before` of the next. Source: RFC 3720, B.4. */
MZ_API std::uint32_t crc32c(std::span<const std::byte> bytes, std::uint32_t before = 0);
/** Formats a checksum: 8 hexadecimal digits. */
MZ_API std::string crc_text(std::uint32_t crc);

}  // namespace mezzo::io
