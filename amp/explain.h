// explain: what a session decided, and why each tensor and op is as it is, in words.
// Sees: session_core.h.
// Read next: explain.cpp.
#pragma once

#include <string>

#include "session_core.h"

namespace mezzo::amp {

/** The text of Session::explain(). */
std::string explain(SessionCore& core);

}  // namespace mezzo::amp
