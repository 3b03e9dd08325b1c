// load_tensors: reads and checks the values after the header.
#include <bit>
#include <cmath>
#include <cstring>

#include "../core/dispatch.h"
#include "../text/text.h"
#include "byte_reader.h"
#include "safetensors.h"
#include "safetensors_header.h"
#include "safetensors_stream.h"
#include "utf8.h"

namespace mezzo {

static_assert(std::endian::native == std::endian::little,
              "the format is little-endian, and so must the machine be");

namespace {

using io::ByteReader;
using io::FileEntry;
using io::FileHeader;
using io::quote;

/** Checks that a bool tensor holds only 0 and 1, because another byte is not a valid C++ bool. */
void require_bools(const ByteReader& file, const FileHeader& header, const FileEntry& entry,
                   const Tensor& x) {
  const auto* bytes = static_cast<const unsigned char*>(x.raw_data());
  for (std::int64_t i = 0; i < x.numel(); ++i)
    if (bytes[i] > 1)
      fail<FormatError>(file.subject(),
                        {.what = str("a value of ", quote(entry.name), " is no bool"),
                         .got = str(int{bytes[i]}, " at byte ",
                                    header.buffer + entry.begin + static_cast<std::uint64_t>(i)),
                         .expected = "0 or 1"});
}

template <class T> bool is_bad(T value) { return !std::isfinite(static_cast<double>(value)); }

void require_finite(const ByteReader& file, const FileHeader& header, const FileEntry& entry,
                    const Tensor& x) {
  visit_dtype(x.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (is_floating(dtype_of<T>()))
      for (std::int64_t i = 0; i < x.numel(); ++i)
        if (const T value = x.data<T>()[i]; is_bad(value))
          fail<FormatError>(
              file.subject(),
              {.what = str(quote(entry.name), " holds a value that is not finite"),
               .got = str(static_cast<double>(value), " at byte ",
                          header.buffer + entry.begin + static_cast<std::uint64_t>(i) * sizeof(T)),
               .expected = "finite values, because check_finite is set"});
  });
}

/** Converts integers of a type that tensors do not have to i32. */
template <class Narrow> void widen(const std::vector<std::byte>& bytes, const Tensor& x) {
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    Narrow value;
    std::memcpy(&value, bytes.data() + static_cast<std::size_t>(i) * sizeof value, sizeof value);
    x.data<std::int32_t>()[i] = value;
  }
}

Tensor read_tensor(const ByteReader& file, const FileHeader& header, const FileEntry& entry) {
  Tensor x = empty_tensor(entry.shape, entry.dtype->tensor, cpu);
  const std::uint64_t at = header.buffer + entry.begin, bytes = entry.end - entry.begin;
  if (entry.dtype->bytes == item_size(x.dtype()))
    file.read(at, x.raw_data(), bytes);
  else if (entry.dtype->bytes == 2)
    widen<std::int16_t>(file.bytes(at, bytes), x);
  else
    widen<std::int8_t>(file.bytes(at, bytes), x);
  return x;
}

}  // namespace

LoadedTensors load_tensors(const std::string& path, const LoadTensorsOptions& options) {
  if (io::is_index(path)) return io::read_index(path, options);
  return io::read_tensors(ByteReader("load_tensors", path), options);
}

LoadedTensors io::read_tensors(const ByteReader& file, const LoadTensorsOptions& options) {
  FileHeader header = io::read_header(file);
  LoadedTensors loaded;
  loaded.tensors.reserve(header.entries.size());
  for (FileEntry& entry : header.entries) {
    const Tensor x = read_tensor(file, header, entry);
    if (x.dtype() == DType::boolean) require_bools(file, header, entry, x);
    if (options.check_finite) require_finite(file, header, entry, x);
    loaded.tensors.emplace_back(std::move(entry.name), x);
  }
  loaded.metadata = std::move(header.metadata);
  return loaded;
}

}  // namespace mezzo
