// What a Training may consist of, and what must hold between its parts.
// Sees: checkpoint.h. Private to this room.
// Read next: checkpoint_parts.cpp.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint.h"

namespace mezzo::amp {

/** Errors: ValueError for names that cannot be keys or occur twice, a negative step or epoch, metadata that is not UTF-8, and an optimizer or
 *  model whose session takes no part; StateError for a closed session. */
void require_valid_parts(std::string_view op, const Training& training);

/** The path without slashes at its end. */
std::string without_slash(const std::string& path);

}  // namespace mezzo::amp
