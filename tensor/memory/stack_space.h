// Checks how much of this thread's stack is left, so that a model that is nested too deeply ends in
// an error. Private to tensor/.
#pragma once

#include <cstddef>

namespace mezzo {

/** Returns true if the calling thread has stack for another level of calls, and if the system does
 *  not report the stack's bounds. */
bool stack_has_room();

}  // namespace mezzo
