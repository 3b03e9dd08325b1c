// explain(): the text of Session::explain().
#pragma once

#include <string>

#include "../session_core.h"

namespace mezzo::amp {

/** Describes what a session decided: its level and overrides, every parameter and buffer with its
 *  dtype, and what happens to the ops of each tag. */
std::string explain(SessionCore& core);

}  // namespace mezzo::amp
