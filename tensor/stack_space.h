// How much of this thread's stack is left, so that recursion as deep as a user's net ends in an
// error. Private to this room.
#pragma once

#include <cstddef>

namespace mezzo {

/** True while the calling thread has stack enough for another level of calls; also where the system
 *  does not tell. */
bool stack_has_room();

}  // namespace mezzo
