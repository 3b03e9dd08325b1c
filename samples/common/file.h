// Files that the samples read whole.
// Sees: the standard library.
// Read next: file.cpp.
#pragma once

#include <string>

namespace samples {

/** The bytes of a file, or of a pipe to its end. `what` it is comes before the path in errors.
 *  Errors: IoError, naming path and cause. Devices are refused: /dev/zero has no end. */
std::string read_file(const std::string& what, const std::string& path);

}  // namespace samples
