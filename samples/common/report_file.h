// Report files, whole.
// Sees: the standard library.
// Read next: json.cpp.
#pragma once

#include <string>

namespace samples {

/** For the start of a long run, so that it does not fail at its end: whether the file can be written. Errors: IoError naming the path. */
void check_writable(const std::string& path);
/** Errors: IoError naming the path. */
void write_report(const std::string& path, const std::string& text);

}  // namespace samples
