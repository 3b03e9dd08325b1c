// How much of this thread's stack is left: recursion as deep as a user's net ends in an error.
// Sees: the standard library only. Private to this room.
// Read next: stack_space.cpp.
#pragma once

#include <cstddef>

namespace mezzo {

/** True while the calling thread has stack enough for another level of calls; also where the system
 *  does not tell. */
bool stack_has_room();

}  // namespace mezzo
