// did_you_mean(): the hint of an error about an unknown name.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "../core/macros.h"

namespace mezzo {

/** Returns the known names that resemble `got`, nearest first, as text: `did you mean
 *  "fc1.weight"?`; empty if there is none. */
MZ_API std::string did_you_mean(std::string_view got, std::span<const std::string> known);

}  // namespace mezzo
