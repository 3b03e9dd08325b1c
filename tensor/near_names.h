// did_you_mean(): the hint of an error about an unknown name.
// Sees: the standard library only.
// Read next: error.h.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "macros.h"

namespace mezzo {

/** The known names that resemble `got`, nearest first, as text: `did you mean "fc1.weight"?`; empty when none does. */
MZ_API std::string did_you_mean(std::string_view got, std::span<const std::string> known);

}  // namespace mezzo
