// AtomicDirectory: a directory of files that appears whole or not at all; whatever goes wrong, the one it would have replaced stays.
// Sees: safetensors_stream.h (ByteSink), system_call.h.
// Read next: atomic_directory.cpp, checkpoint_directory.h (directories of such directories).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../macros.h"
#include "safetensors_stream.h"
#include "system_call.h"

namespace mezzo::io {

/** By what a file is recognised. */
struct FileFacts {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  // CRC-32C
  friend bool operator==(const FileFacts&, const FileFacts&) = default;
};

/** The facts of a file that is there, read in pieces. Errors: IoError. */
MZ_API FileFacts facts_of(const ByteReader& file);

/** Collects files in PATH.tmp-RANDOM; commit() makes all of it durable and renames it to PATH, in exchange for a directory that is there. Without
 *  commit the temporary directory goes.   Errors: IoError naming operation, path and cause. */
class MZ_API AtomicDirectory {
 public:
  /** `names` are those of all files that may be in it: a directory at PATH that holds others is not replaced. */
  AtomicDirectory(std::string_view operation, const std::string& path, std::vector<std::string> names);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  /** Writes one file and makes it durable. `produce` gives its bytes; it may begin by refusing. */
  FileFacts write(const std::string& name,
                  const std::function<void(const std::function<ByteSink()>& ready)>& produce);
  FileFacts write(const std::string& name, std::string_view text);
  void commit();

 private:
  [[noreturn]] void fail_with(const std::string& name, const char* what, int error) const;
  void require_replaceable() const;
  void take_place();
  void remove_temporary() noexcept;

  std::string operation_, target_, temporary_;
  std::vector<std::string> names_;
  bool renamed_ = false;
};

/** Names in a directory, without "." and "..", in no order. 0, or the error number. */
int list_directory(const std::string& path, std::vector<std::string>& names);
/** Whether the path is a directory itself, no link to one. */
bool is_directory(const std::string& path);
/** Whether the path is a directory that holds no other files than these. */
bool may_remove_directory(const std::string& path, const std::vector<std::string>& names);
/** Removes a directory that holds no other files than these. False where it holds others, and nothing is gone; or where removing failed. */
MZ_API bool remove_directory(const std::string& path, const std::vector<std::string>& names);

}  // namespace mezzo::io
