// Writing to disk one system call at a time: each can be made to fail, so that tests see what a full disk or a dying process leaves.
// Sees: the standard library only.
// Read next: atomic_file.h, atomic_directory.h (who write with it).
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "../macros.h"

namespace mezzo::io {

/** For tests: called with the name of each system call before it is made. What it returns, if not 0, becomes the call's error number;
 *  kShortWrite makes a write end before all its bytes are written, without an error. Null removes it. */
using FileFault = int (*)(std::string_view call);
inline constexpr int kShortWrite = -1;
MZ_API void set_file_fault(FileFault fault);

/** What the fault says about the call; 0 without one. */
MZ_API int file_fault(std::string_view call);

/** Makes a system call that returns -1 and sets errno when it fails; repeats it when a signal interrupted it. */
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

// Each of these returns 0, or the error number of the call that failed.
int write_all(int file, std::span<const std::byte> bytes);
/** Makes what was written durable and closes the file, which is closed whatever comes back. `failed` is set to what could not be done. */
int sync_and_close(int file, const char*& failed);
/** Makes the names in a directory durable; file systems that know no such thing have nothing more to do. */
int sync_directory(const std::string& path);

/** The directory part of a path: "." without one. */
std::string directory_of(const std::string& path);
/** ".tmp-" and 13 random digits: what the name of something unfinished ends with. */
MZ_API std::string temporary_suffix();
/** Whether a name ends as temporary_suffix() does. */
MZ_API bool is_temporary(std::string_view name);

}  // namespace mezzo::io
