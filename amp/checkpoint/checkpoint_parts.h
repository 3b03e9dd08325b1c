// Checks of the parts of a Training.
#pragma once

#include <string>
#include <string_view>

#include "checkpoint.h"

namespace mezzo::amp {

/** Checks the parts of a training. Errors: ValueError for names that cannot be keys or occur
 *  twice, a negative step or epoch, metadata that is not UTF-8, and an optimizer or model whose
 *  session is not among the parts; StateError for a closed session. */
void require_valid_parts(std::string_view op, const Training& training);

/** Returns the path without trailing slashes. */
std::string without_slash(const std::string& path);

}  // namespace mezzo::amp
