// AtomicDirectory: a directory of files that is written completely or not at all. If writing fails,
// the directory that it would have replaced stays.
// See also: checkpoint_directory.h (directories of such directories).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "../core/macros.h"
#include "safetensors_stream.h"
#include "system_call.h"

namespace mezzo::io {

/** The size and checksum by which a file is verified. */
struct FileFacts {
  std::uint64_t bytes = 0;
  std::uint32_t crc = 0;  // CRC-32C
  friend bool operator==(const FileFacts&, const FileFacts&) = default;
};

/** Returns the size and checksum of an existing file, read in chunks. Errors: IoError. */
MZ_API FileFacts facts_of(const ByteReader& file);
/** Throws unless an existing file has this size and checksum. Errors: FormatError; IoError. */
void require_facts(const ByteReader& file, const FileFacts& expected);

/** A new directory whose files are collected in PATH.tmp-RANDOM. commit() makes them durable and
 *  renames the directory to PATH, in exchange for an existing one. Without commit the temporary
 *  directory is removed. Errors: IoError naming operation, path and cause. */
class MZ_API AtomicDirectory {
 public:
  /** Creates the temporary directory. `names` are those of all files it may contain: an existing
   *  directory at PATH with other files is not replaced. */
  AtomicDirectory(std::string_view operation, const std::string& path,
                  std::vector<std::string> names);
  ~AtomicDirectory();
  AtomicDirectory(const AtomicDirectory&) = delete;
  AtomicDirectory& operator=(const AtomicDirectory&) = delete;

  /** Writes one file and makes it durable. `produce` writes its bytes to the sink that ready()
   *  returns; it may throw before calling ready(), and then no file is created. */
  FileFacts write(const std::string& name,
                  const std::function<void(const std::function<ByteSink()>& ready)>& produce);
  FileFacts write(const std::string& name, std::string_view text);
  /** Makes the files durable and renames the directory to its place. */
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

/** Lists the names in a directory, without "." and "..", in no order. Returns 0, or the error
 *  number. */
int list_directory(const std::string& path, std::vector<std::string>& names);
/** Returns true if the path is a directory, and not a link to one. */
bool is_directory(const std::string& path);
/** Returns true if the path is a directory with no files other than `names`. */
bool may_remove_directory(const std::string& path, const std::vector<std::string>& names);
/** Removes a directory with no files other than `names`. Returns false if it has others, in which
 *  case nothing is removed, or if removing fails. */
MZ_API bool remove_directory(const std::string& path, const std::vector<std::string>& names);

}  // namespace mezzo::io
