// Report files, whole.
// Sees: the standard library.
// Read next: json.cpp.
#pragma once

#include <string>

namespace samples {

/** Errors: IoError naming the path. */
void write_report(const std::string& path, const std::string& text);
/** Errors: IoError naming the path. */
std::string read_report(const std::string& path);

}  // namespace samples
