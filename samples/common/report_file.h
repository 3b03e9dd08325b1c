// Report files, whole.
// Sees: the standard library.
// Read next: json.cpp.
#pragma once

#include <fstream>
#include <string>

namespace samples {

/** For the start of a long run, so that it does not fail at its end: checks that the file can be written.
 *  Errors: UsageError naming the path. */
void check_writable(const std::string& path);
/** An empty file that is written as the run goes. It is opened once: a named pipe has one reader.
 *  Errors: UsageError naming the path. */
std::ofstream open_report(const std::string& path);
/** Errors: IoError naming the path, where not all that was put into the file could be written. */
void require_written(const std::ofstream& file, const std::string& path);
/** Errors: IoError naming the path. */
void write_report(const std::string& path, const std::string& text);

}  // namespace samples
