// Writes report files and checks that everything was written.
#pragma once

#include <fstream>
#include <string>

namespace samples {

/** Checks that the file can be written, so that a long run fails at its start and not at its end.
 *  Errors: UsageError with the path. */
void check_writable(const std::string& path);
/** Returns an empty file that is written during the run. It is opened once, because a named pipe
 *  has one reader. Errors: UsageError with the path. */
std::ofstream open_report(const std::string& path);
/** Throws IoError, with the path, if a write to the file failed. */
void require_written(const std::ofstream& file, const std::string& path);
/** Writes a file. Errors: IoError with the path. */
void write_report(const std::string& path, const std::string& text);

}  // namespace samples
