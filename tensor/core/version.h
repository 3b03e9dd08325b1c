// The version of the library: of its headers as macros, of the library that a program runs with as
// a function.
#pragma once

#include <string_view>

#include "macros.h"

// The same as in meson.build: version.cpp.in compares them.
#define MEZZO_VERSION_MAJOR 0
#define MEZZO_VERSION_MINOR 1
#define MEZZO_VERSION_PATCH 0

namespace mezzo {

/** Returns the version of the library, as "0.1.0". */
MZ_API std::string_view version();

}  // namespace mezzo
