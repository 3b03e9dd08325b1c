// ByteReader: reads a file, or bytes in memory, with checked bounds. Also the overflow-checked
// product of sizes for readers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../core/macros.h"

namespace mezzo::io {

/** Returns the product of the sizes, or nothing if it exceeds 59 bits; a size of 0 does not hide an
 *  overflow of the others. */
MZ_API std::optional<std::uint64_t> checked_numel(std::span<const std::uint64_t> sizes);

/** Random access to the bytes of one file. Errors are reported as "operation(path)". */
class MZ_API ByteReader {
 public:
  /** Opens a regular file. Errors: IoError. */
  ByteReader(std::string operation, const std::string& path);
  /** Reads memory, which must outlive the reader; `name` is used as the path in errors. */
  ByteReader(std::string operation, const std::string& name, std::span<const std::byte> bytes);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  /** Returns the size in bytes. */
  std::uint64_t size() const { return size_; }
  /** Returns "operation(path)", the subject of all errors about this file. */
  const std::string& subject() const { return subject_; }

  /** Copies n bytes from `offset` on. Errors: FormatError if the file does not have them, IoError
   *  if reading fails. */
  void read(std::uint64_t offset, void* to, std::uint64_t n) const;
  /** Returns n bytes from `offset` on. Errors: as read, checked before the memory is allocated;
   *  OutOfMemory. */
  std::vector<std::byte> bytes(std::uint64_t offset, std::uint64_t n) const;
  /** Returns the little-endian number of 8 bytes at `offset`. Errors: as read. */
  std::uint64_t little_u64(std::uint64_t offset) const;
  /** Returns the big-endian number of 4 bytes at `offset`. Errors: as read. */
  std::uint32_t big_u32(std::uint64_t offset) const;

 private:
  void require(std::uint64_t offset, std::uint64_t n) const;

  std::string subject_;
  int file_ = -1;
  std::span<const std::byte> memory_;
  std::uint64_t size_ = 0;
};

}  // namespace mezzo::io
