// Reading gzip: inflates a file or bytes in memory piece by piece; memory is needed for what is asked for alone.
// Sees: byte_reader.h; zlib stays inside gzip.cpp.
// Read next: gzip.cpp, idx.cpp (its user).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "byte_reader.h"

namespace mezzo::io {

/** True when the bytes begin as a gzip file does. */
MZ_API bool is_gzip(std::span<const std::byte> bytes);

/** The content of a gzip file of one or several members, in order. */
class MZ_API GzipReader {
 public:
  /** `compressed` outlives the reader; `subject` is what errors are about. Errors: FormatError unless it begins as gzip; Unsupported in a
   *  build without zlib. */
  GzipReader(std::string subject, std::span<const std::byte> compressed);
  /** As above. Pieces of the file are read as they are needed; it outlives the reader. */
  explicit GzipReader(const ByteReader& file);
  ~GzipReader();
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  /** Inflates up to n bytes; fewer only where the content ends. Errors: FormatError for damaged or truncated data. */
  std::size_t read(void* to, std::size_t n);

 private:
  struct Stream;
  std::unique_ptr<Stream> stream_;
};

/** The whole content. Errors: as GzipReader; FormatError when it is longer than `most` bytes. */
MZ_API std::vector<std::byte> gunzip(const std::string& subject, std::span<const std::byte> compressed,
                                     std::uint64_t most);

/** No deflate stream expands further than this: a claim beyond it is refused before anything is allocated. */
inline constexpr std::uint64_t kMostExpansion = 1032;

}  // namespace mezzo::io
