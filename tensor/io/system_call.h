// System calls for writing to disk. Tests can make each call fail, to simulate a full disk or a
// killed process.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "../core/macros.h"

namespace mezzo::io {

/** For tests: a function that is called with the name of each system call before it is made. A
 *  result other than 0 becomes the call's error number; kShortWrite makes a write end early without
 *  an error. */
using FileFault = int (*)(std::string_view call);
/** The result of a FileFault that makes a write end early. */
inline constexpr int kShortWrite = -1;
/** Sets the process's FileFault; null removes it. */
MZ_API void set_file_fault(FileFault fault);

/** Returns the result of the FileFault for the call; 0 without one. */
MZ_API int file_fault(std::string_view call);

/** Makes a system call that returns -1 and sets errno on failure; repeats it if a signal interrupts
 *  it. */
template <class F> auto system_call(std::string_view name, F&& call) -> decltype(call()) {
  if (const int error = file_fault(name); error > 0) {
    errno = error;
    return -1;
  }
  decltype(call()) result = -1;
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

// The following functions return 0, or the error number of the call that failed.
/** Writes all bytes to the file. */
int write_all(int file, std::span<const std::byte> bytes);
/** Makes the written data durable and closes the file, also on failure. `failed` is set to a
 *  description of what failed. */
int sync_and_close(int file, const char*& failed);
/** Makes the names in a directory durable; does nothing on file systems without this operation. */
int sync_directory(const std::string& path);

/** Returns the directory part of a path; "." if it has none. */
std::string directory_of(const std::string& path);
/** Returns ".tmp-" and 13 random digits: the suffix of the names of unfinished files and
 *  directories. */
MZ_API std::string temporary_suffix();
/** Returns true if a name ends like a temporary_suffix(). */
MZ_API bool is_temporary(std::string_view name);

}  // namespace mezzo::io
