// Fuzzes gzip data: whole and chunked reads give the same content, or a FormatError is thrown.
#include "../../tensor/io/gzip.h"

#include "../../tensor/core/error.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMost = 1 << 18;
  const auto compressed = fuzz::bytes(fuzz::text(data, size));
  try {
    const std::vector<std::byte> whole = mezzo::io::gunzip("fuzz", compressed, kMost);
    mezzo::io::GzipReader reader("fuzz", compressed);
    std::vector<std::byte> pieces(whole.size() + 1);
    std::size_t read = 0;
    while (const std::size_t got = reader.read(pieces.data() + read, size % 61 + 1)) {
      read += got;
      fuzz::require(read <= whole.size());
      pieces.resize(read + size % 61 + 1);
    }
    pieces.resize(read);
    fuzz::require(pieces == whole);
  } catch (const mezzo::FormatError&) {}
  return 0;
}
