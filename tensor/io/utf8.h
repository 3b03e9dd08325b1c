// UTF-8 validation and JSON string escaping.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "../core/macros.h"

namespace mezzo::io {

/** Returns the index of the first byte that is not part of a UTF-8 character; npos if there is
 *  none. Overlong forms, surrogates and values above U+10FFFF are invalid. */
MZ_API std::size_t find_non_utf8(std::string_view text);

/** Appends the text as a JSON string in quotes; escapes only what JSON requires. */
MZ_API void append_json_string(std::string& out, std::string_view text);

/** Returns the text as a JSON string; bytes that are not UTF-8 become question marks. */
MZ_API std::string json_string(std::string_view text);

/** Returns the text in quotes for an error message, escaped and truncated if long. */
MZ_API std::string quote(std::string_view text);

}  // namespace mezzo::io
