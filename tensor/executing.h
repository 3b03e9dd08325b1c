// Whether a module is executing on this thread: whether a ModulePathScope is open (error.h).
// Sees: macros.h.
// Read next: error.cpp.
#pragma once

#include "macros.h"

namespace mezzo {

/** True inside the call of any module, also of one without a name. */
MZ_API bool module_is_executing();

}  // namespace mezzo
