// AtomicFile: a file that appears whole or not at all; whatever goes wrong, the file it would have replaced stays.
// Sees: system_call.h.
// Read next: atomic_file.cpp, safetensors_write.cpp (its user), atomic_directory.h (several files at once).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "../macros.h"
#include "system_call.h"

namespace mezzo::io {

/** Writes to a temporary file in the same directory; commit() makes it durable and renames it to its place. Without commit the temporary file
 *  goes. Permissions are those of the file replaced, else what the umask leaves. A symbolic link is followed: what it names is replaced.
 *  Errors: IoError naming operation, path and cause. */
class MZ_API AtomicFile {
 public:
  AtomicFile(std::string_view operation, const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /** fsync, rename, fsync of the directory. */
  void commit();

 private:
  [[noreturn]] void fail_with(const char* what, int error) const;

  std::string subject_;
  std::string target_, directory_, temporary_;
  int file_ = -1;
  bool renamed_ = false;
};

}  // namespace mezzo::io
