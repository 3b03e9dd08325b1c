// AtomicFile: a file that is written completely or not at all. If writing fails, the file that it
// would have replaced stays.
// See also: atomic_directory.h (several files at once).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "../core/macros.h"
#include "system_call.h"

namespace mezzo::io {

/** A new file, written to a temporary file in the same directory. commit() makes it durable and
 *  renames it to its place. Without commit the temporary file is removed. Permissions are those of
 *  the replaced file, else the umask's default. A symbolic link is followed: its target is
 *  replaced. Errors: IoError naming operation, path and cause. */
class MZ_API AtomicFile {
 public:
  /** Creates the temporary file. `operation` is the function that errors name. */
  AtomicFile(std::string_view operation, const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  /** Appends bytes to the file. */
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /** Makes the file durable and renames it: fsync, rename, fsync of the directory. */
  void commit();

 private:
  [[noreturn]] void fail_with(const char* what, int error) const;

  std::string subject_;
  std::string target_, directory_, temporary_;
  int file_ = -1;
  bool renamed_ = false;
};

}  // namespace mezzo::io
