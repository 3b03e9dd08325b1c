// Whether a module is executing on this thread: known by the ModulePathScopes that are open
// (error.h).
#pragma once

#include "macros.h"

namespace mezzo {

/** True inside the call of any module, also of one without a name. */
MZ_API bool module_is_executing();

}  // namespace mezzo
