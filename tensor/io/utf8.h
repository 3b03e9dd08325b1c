// UTF-8 and JSON text: is it, and how it is written.
// Sees: the standard library only.
// Read next: safetensors_write.cpp, safetensors_header.cpp.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "../macros.h"

namespace mezzo::io {

/** Where the first byte lies that is not part of a UTF-8 character; npos when there is none. Overlong forms, surrogates and values above
 *  U+10FFFF are none. */
MZ_API std::size_t find_non_utf8(std::string_view text);

/** Appends the text as a JSON string in quotes; only what must be escaped is. */
MZ_API void append_json_string(std::string& out, std::string_view text);

/** The text in quotes for an error message: escaped, and cut when it is long. */
MZ_API std::string quote(std::string_view text);

}  // namespace mezzo::io
