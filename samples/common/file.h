// Reads whole files.
#pragma once

#include <string>

namespace samples {

/** Returns the bytes of a file, or of a pipe until its end. `what` precedes the path in errors.
 *  Errors: IoError with path and cause, also for devices, because /dev/zero has no end. */
std::string read_file(const std::string& what, const std::string& path);

}  // namespace samples
