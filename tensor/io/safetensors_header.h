// The header of a safetensors file, for the reader and the writer. The format is:
//   u64 little-endian N; N bytes of JSON
//   {"name":{"dtype":..,"shape":[..],"data_offsets":[begin,end]},..}; one buffer to the end of the
//   file.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "../core/dtype.h"
#include "byte_reader.h"
#include "safetensors.h"

namespace mezzo::io {

/** An element type of the format, and the tensor dtype that represents it. */
struct FileDType {
  std::string_view name;
  std::uint8_t bytes;
  DType tensor;
};

/** The element types, in the order in which files list their entries. I16 and I8 are read as i32
 *  and never written. */
inline constexpr std::array<FileDType, 10> kFileDTypes{{{"I64", 8, DType::i64},
                                                        {"F64", 8, DType::f64},
                                                        {"F32", 4, DType::f32},
                                                        {"I32", 4, DType::i32},
                                                        {"BF16", 2, DType::bf16},
                                                        {"F16", 2, DType::f16},
                                                        {"I16", 2, DType::i32},
                                                        {"I8", 1, DType::i32},
                                                        {"U8", 1, DType::u8},
                                                        {"BOOL", 1, DType::boolean}}};

inline constexpr std::uint64_t kMostHeaderBytes = 100'000'000;
inline constexpr std::uint64_t kMostMetadataBytes = std::uint64_t{1} << 20;
// These limits keep the memory for a header below twice its size, whatever it contains.
inline constexpr std::uint64_t kMostTensors = std::uint64_t{1} << 17;
inline constexpr std::uint64_t kMostNameBytes = std::uint64_t{1} << 25;   // of all names together
inline constexpr std::uint64_t kMostTokenBytes = std::uint64_t{1} << 23;  // of one string, number
inline constexpr std::string_view kMetadataKey = "__metadata__";

/** One tensor of a file. */
struct FileEntry {
  std::string name;
  const FileDType* dtype = nullptr;
  Shape shape;
  std::uint64_t begin = 0, end = 0;  // in the buffer
};

/** The header of a file. */
struct FileHeader {
  std::vector<FileEntry> entries;  // in the order of the header
  TensorMetadata metadata;
  std::uint64_t buffer = 0;  // its offset in the file
};

/** Reads the header and checks everything except the values. Errors: FormatError with offset and
 *  reason. */
FileHeader read_header(const ByteReader& file);

}  // namespace mezzo::io
