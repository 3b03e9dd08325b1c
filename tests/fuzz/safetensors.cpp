// Fuzzes safetensors files: they are read or rejected with a FormatError.
#include "../../tensor/core/error.h"
#include "../../tensor/io/safetensors_stream.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const mezzo::io::ByteReader file("load_tensors", "fuzz", fuzz::bytes(fuzz::text(data, size)));
  try {
    const auto loaded = mezzo::io::read_tensors(file, {.check_finite = size % 2 == 0});
    std::size_t bytes = 0;
    for (const auto& [name, x] : loaded.tensors) bytes += x.impl()->storage->bytes();
    fuzz::require(bytes <= 4 * size);  // I8 becomes i32
  } catch (const mezzo::FormatError&) {}
  return 0;
}
