// module_is_executing: tells whether a ModulePathScope (error.h) is open on this thread.
#pragma once

#include "macros.h"

namespace mezzo {

/** Returns true inside the call of any module, including modules without a name. */
MZ_API bool module_is_executing();

}  // namespace mezzo
