// The version of the library that a program runs with.
// Sees: the standard library only.
// Read next: ../meson.build, where it is written down.
#pragma once

#include <string_view>

#include "macros.h"

namespace mezzo {

/** "0.1.0" */
MZ_API std::string_view version();

}  // namespace mezzo
