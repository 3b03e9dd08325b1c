// GzipReader: inflates a gzip file, or bytes in memory, in chunks, so that only the requested bytes
// need memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "byte_reader.h"

namespace mezzo::io {

/** Returns true if the bytes begin with the gzip magic number. */
MZ_API bool is_gzip(std::span<const std::byte> bytes);

/** A reader of the content of a gzip file with one or several members. */
class MZ_API GzipReader {
 public:
  /** Reads from memory. `compressed` must outlive the reader; `subject` is the subject of errors.
   *  Errors: FormatError if it does not begin as gzip; Unsupported in a build without zlib. */
  GzipReader(std::string subject, std::span<const std::byte> compressed);
  /** Reads from a file in chunks as needed; the file must outlive the reader. Errors: as above. */
  explicit GzipReader(const ByteReader& file);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /** Inflates up to n bytes and returns their number, which is smaller than n only at the end of
   *  the content. Errors: FormatError for damaged or truncated data. */
  std::size_t read(void* to, std::size_t n);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/** Returns the whole content. Errors: as GzipReader; FormatError if it is longer than `most`
 *  bytes. */
MZ_API std::vector<std::byte> gunzip(const std::string& subject,
                                     std::span<const std::byte> compressed, std::uint64_t most);

/** Returns true in a build with zlib. */
MZ_API bool can_gzip();
/** Returns the bytes as a gzip file, compressed as far as zlib can. Errors: Unsupported in a build
 *  without zlib; OutOfMemory. */
MZ_API std::vector<std::byte> gzip(std::span<const std::byte> content);

/** The maximum expansion of a deflate stream. A larger claimed size is rejected before anything is
 *  allocated. */
inline constexpr std::uint64_t kMostExpansion = 1032;

}  // namespace mezzo::io
