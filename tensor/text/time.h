// The time of day as text.
#pragma once

#include <string>

namespace mezzo {

/** Returns the time in UTC as ISO 8601 has it: "2026-11-23T10:00:00Z". */
std::string utc_now();

}  // namespace mezzo
