// ByteReader: a file, or bytes in memory, read within its bounds; and the one product of sizes that readers trust.
// Sees: error.h.
// Read next: safetensors_header.h, idx.cpp (readers), atomic_file.h (writing).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../macros.h"

namespace mezzo::io {

/** Product of the sizes, or nothing where it does not fit 59 bits; a zero among them does not hide an overflow of the others. */
MZ_API std::optional<std::uint64_t> checked_numel(std::span<const std::uint64_t> sizes);

/** Random access to the bytes of one file. Errors are named "operation(path)". */
class MZ_API ByteReader {
 public:
  /** Opens a regular file. Errors: IoError. */
  ByteReader(std::string operation, const std::string& path);
  /** Reads memory that outlives the reader; `name` stands for the path. */
  ByteReader(std::string operation, const std::string& name, std::span<const std::byte> bytes);
  ~ByteReader();
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;

  std::uint64_t size() const { return size_; }
  /** "operation(path)", the subject of every error about this file. */
  const std::string& subject() const { return subject_; }

  /** Copies n bytes from `offset` on. Errors: FormatError where the file does not have them, IoError where reading fails. */
  void read(std::uint64_t offset, void* to, std::uint64_t n) const;
  /** n bytes from `offset` on. Errors: as read, checked before the memory is allocated; OutOfMemory. */
  std::vector<std::byte> bytes(std::uint64_t offset, std::uint64_t n) const;
  std::uint64_t little_u64(std::uint64_t offset) const;
  std::uint32_t big_u32(std::uint64_t offset) const;

 private:
  void require(std::uint64_t offset, std::uint64_t n) const;

  std::string subject_;
  int file_ = -1;
  std::span<const std::byte> memory_;
  std::uint64_t size_ = 0;
};

}  // namespace mezzo::io
